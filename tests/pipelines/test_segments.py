"""A log directory read by Spark's workers, with the broker there and without it."""

from pathlib import Path

from pyspark.sql import SparkSession

from tests.pipelines.tables import load, places, run_available
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess

SMALL = {"segment.bytes": "100000"}


def test_segment_files_give_what_the_broker_gives_though_it_is_gone(spark: SparkSession, tmp_path: Path) -> None:
    data = tmp_path / "data"
    with BrokerProcess(data) as broker:
        topics = Topics(broker.address)
        topic = topics.new(partitions=2, settings=SMALL)
        for partition in (0, 1):
            topics.put(topic, [b"%040d" % number for number in range(3000)], partition, timestamp_ms=1_700_000_000_000)
        with topics.transaction("kept", topic, ["kept"]) as producer:
            producer.commit_transaction(30)
        with topics.transaction("given-up", topic, ["given up"]) as producer:
            producer.abort_transaction(30)
        options = {"subscribe": topic, "kafka__isolation__level": "read_committed", "includeHeaders": "true"}
        served = load(spark, broker.address, **options).collect()
    assert len(list((data / f"{topic}-0").glob("*.log"))) > 1
    read = spark.read.format("millstream").option("path", str(data))
    for name, value in options.items():
        read = read.option(name.replace("__", "."), value)
    assert sorted(read.load().collect()) == sorted(served)
    assert len(served) == 6001


def test_a_log_directory_may_be_followed_as_a_stream(
    spark: SparkSession, broker: BrokerProcess, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.new()
    topics.put(topic, list("abc"))
    stream = (
        spark.readStream.format("millstream")
        .option("path", str(broker.data))
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    assert run_available(stream, tmp_path) == [[(topic, 0, 0), (topic, 0, 1), (topic, 0, 2)]]
    topics.put(topic, ["d"])
    assert run_available(stream, tmp_path) == [[(topic, 0, 3)]]


def test_load_takes_the_path_too(spark: SparkSession, broker: BrokerProcess, topics: Topics) -> None:
    topic = topics.new()
    topics.put(topic, ["a"])
    table = spark.read.format("millstream").option("subscribe", topic).load(str(broker.data))
    assert places(table) == [(topic, 0, 0)]
