"""``df.write.format("millstream")``: every option and every mistake, with a real broker and real Spark."""

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from millstream.client.partitioner import partition_of
from tests.pipelines.records import records_of, values_of
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess


def _save(frame: DataFrame, broker: BrokerProcess, **options: str) -> None:
    frame.write.format("millstream").mode("append").options(
        **{"kafka.bootstrap.servers": broker.address, **options}
    ).save()


def _numbers(spark: SparkSession, count: int, tasks: int = 2) -> DataFrame:
    return spark.range(0, count, 1, tasks).select(F.col("id").cast("string").alias("value"))


def _expected(count: int) -> list[bytes]:
    return sorted(str(number).encode() for number in range(count))


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_every_row_is_a_record(spark: SparkSession, broker: BrokerProcess, topics: Topics, delivery: str) -> None:
    topic = topics.new(3)
    _save(_numbers(spark, 5_000), broker, topic=topic, delivery=delivery)
    assert values_of(broker.address, topic) == _expected(5_000)


def test_rows_without_keys_are_spread_over_the_partitions(
    spark: SparkSession, broker: BrokerProcess, topics: Topics
) -> None:
    topic = topics.new(3)
    _save(_numbers(spark, 5_000), broker, topic=topic, **{"kafka.batch.size": "4000"})
    assert {record.partition for record in records_of(broker.address, topic)} == {0, 1, 2}


def test_keys_go_to_the_partitions_that_kafkas_producers_choose_and_keep_their_order(
    spark: SparkSession, broker: BrokerProcess, topics: Topics
) -> None:
    topic = topics.new(5)
    frame = spark.range(0, 2_000, 1, 1).select(
        (F.col("id") % 37).cast("string").alias("key"), F.col("id").cast("string").cast("binary").alias("value")
    )
    _save(frame, broker, topic=topic)
    found = records_of(broker.address, topic)
    assert len(found) == 2_000
    assert all(record.partition == partition_of(record.key or b"", 5) for record in found)
    for key in {record.key for record in found}:
        numbers = [int(record.value or b"") for record in found if record.key == key]
        assert numbers == sorted(numbers)


def test_columns_name_topic_partition_and_headers(spark: SparkSession, broker: BrokerProcess, topics: Topics) -> None:
    one, other = topics.new(2), topics.new(2)
    rows = [
        (one, 1, "k", "a", [("trace", b"1"), ("none", None)]),
        (other, 0, "k", "b", []),
        (one, 0, None, None, None),
    ]
    schema = "topic string, partition int, key string, value string, headers array<struct<key:string,value:binary>>"
    _save(spark.createDataFrame(rows, schema), broker)
    assert [tuple(record) for record in sorted(records_of(broker.address, one))] == [
        (0, None, None, []),
        (1, b"k", b"a", [("trace", b"1"), ("none", None)]),
    ]
    assert [tuple(record) for record in records_of(broker.address, other)] == [(0, b"k", b"b", [])]


def test_the_option_topic_overrides_the_column(spark: SparkSession, broker: BrokerProcess, topics: Topics) -> None:
    one, other = topics.new(), topics.new()
    _save(_numbers(spark, 10).withColumn("topic", F.lit(one)), broker, topic=other)
    assert len(records_of(broker.address, other)) == 10
    assert records_of(broker.address, one) == []


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd", "none"])
def test_batches_are_compressed(spark: SparkSession, broker: BrokerProcess, topics: Topics, codec: str) -> None:
    topic = topics.new(2)
    _save(_numbers(spark, 1_000, 1), broker, topic=topic, **{"kafka.compression.type": codec})
    assert values_of(broker.address, topic) == _expected(1_000)


def test_batches_shrink_to_what_the_topic_takes(spark: SparkSession, broker: BrokerProcess, topics: Topics) -> None:
    topic = topics.new(2, settings={"max.message.bytes": "2000"})
    _save(_numbers(spark, 1_000), broker, topic=topic)
    assert values_of(broker.address, topic) == _expected(1_000)


def test_a_topic_is_made_where_the_broker_makes_topics(spark: SparkSession, broker: BrokerProcess) -> None:
    _save(_numbers(spark, 10), broker, topic="made-on-demand")
    assert len(records_of(broker.address, "made-on-demand")) == 10


def test_a_version_of_an_application_is_written_once(
    spark: SparkSession, broker: BrokerProcess, topics: Topics
) -> None:
    topic = topics.new(2)
    for version in ("1", "1", "2", "1"):
        _save(_numbers(spark, 10), broker, topic=topic, txnAppId=f"app-{topic}", txnVersion=version)
    assert len(records_of(broker.address, topic)) == 20


def test_decisions_are_kept_where_the_option_says(spark: SparkSession, broker: BrokerProcess, topics: Topics) -> None:
    topic, decisions = topics.new(), f"{topics.new()}-decisions"
    _save(_numbers(spark, 10), broker, topic=topic, decisionsTopic=decisions, txnAppId="app", txnVersion="1")
    assert len(records_of(broker.address, topic)) == 10
    assert {record.key for record in records_of(broker.address, decisions)} == {f"app/{topic}".encode()}


def test_no_decision_stays_of_a_job_that_is_over(spark: SparkSession, broker: BrokerProcess, topics: Topics) -> None:
    """Nobody will ask for it, and whoever reads the decisions would read it for ever."""
    topic, decisions = topics.new(), f"{topics.new()}-decisions"
    _save(_numbers(spark, 10), broker, topic=topic, decisionsTopic=decisions)
    last = {record.key: record.value for record in records_of(broker.address, decisions)}
    assert [*last.values()] == [None]


def test_an_application_writes_its_version_to_each_topic(
    spark: SparkSession, broker: BrokerProcess, topics: Topics
) -> None:
    one, other = topics.new(), topics.new()
    for topic in (one, other, one):
        _save(_numbers(spark, 10), broker, topic=topic, txnAppId=f"app-{one}", txnVersion="1")
    assert [len(records_of(broker.address, topic)) for topic in (one, other)] == [10, 10]


def test_nothing_shows_of_a_job_that_fails(spark: SparkSession, broker: BrokerProcess, topics: Topics) -> None:
    topic = topics.new(2)
    frame = _numbers(spark, 1_000).withColumn(
        "partition", F.when(F.col("value") == "900", F.lit(7)).otherwise(F.lit(0)).cast("int")
    )
    with pytest.raises(Exception, match=r"partition 7: topic .* has partitions 0 to 1"):
        _save(frame, broker, topic=topic)
    assert records_of(broker.address, topic) == []
    _save(_numbers(spark, 10), broker, topic=topic)
    assert len(records_of(broker.address, topic)) == 10  # Nothing was left open that holds readers back.


def test_an_empty_frame_writes_nothing(spark: SparkSession, broker: BrokerProcess, topics: Topics) -> None:
    topic = topics.new()
    _save(_numbers(spark, 10).where("value = 'none'"), broker, topic=topic)
    assert records_of(broker.address, topic) == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"kafka.compression.type": "brotli"}, r"kafka\.compression\.type=brotli"),
        ({"delivery": "twice"}, r"delivery=twice.*exactly-once"),
        ({"kafka.batch.size": "many"}, r"kafka\.batch\.size=many"),
        ({"kafka.batch.size": "0"}, r"kafka\.batch\.size=0"),
        ({"kafka.buffer.memory": "1"}, r"kafka\.buffer\.memory=1"),
        ({"kafka.max.request.size": "-1"}, r"kafka\.max\.request\.size=-1"),
        ({"kafka.transaction.timeout.ms": "0"}, r"kafka\.transaction\.timeout\.ms=0"),
        ({"kafka.request.timeout.ms": "soon"}, r"kafka\.request\.timeout\.ms=soon"),
        ({"kafka.acks": "2"}, r"kafka\.acks=2"),
        ({"kafka.bootstrap.servers": "nowhere:x"}, r"kafka\.bootstrap\.servers=nowhere:x"),
        ({"kafka.transactional.id": "mine"}, r"kafka\.transactional\.id=mine"),
        ({"kafka.security.protocol": "SSL"}, r"kafka\.security\.protocol=SSL"),
        ({"txnAppId": "app"}, r"txnAppId=app.*txnVersion"),
        ({"txnAppId": "app", "txnVersion": "-3"}, r"txnVersion=-3"),
    ],
)
def test_a_wrong_option_is_named_with_its_value(
    spark: SparkSession, broker: BrokerProcess, options: dict[str, str], said: str
) -> None:
    with pytest.raises(Exception, match=said):
        _save(_numbers(spark, 1), broker, **{"topic": "t", **options})


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (["id"], "no column value, only id"),
        (["id as value"], "column value is of type bigint, not string or binary"),
        (["'x' as value", "id as key"], "column key is of type bigint"),
        (["'x' as value", "id as partition"], "column partition is of type bigint, not integer"),
        (["'x' as value", "array('a') as headers"], "column headers is of type array<string>"),
        (["'x' as value", "1 as topic"], "column topic is of type int"),
        (["'x' as value"], "where to write is not said"),
        (["'x' as value", "cast(null as string) as topic"], "row 0 of 1 has no topic"),
        (
            [
                "'x' as value",
                "'t' as topic",
                "array(named_struct('key', string(null), 'value', binary('v'))) as headers",
            ],
            "a header has no name",
        ),
        (["repeat('x', 2000000) as value", "'t' as topic"], r"larger than kafka\.max\.request\.size=1048576"),
        (["'x' as value", "'no such name' as topic"], "topic=no such name"),
    ],
)
def test_a_frame_that_cannot_be_written_says_why(
    spark: SparkSession, broker: BrokerProcess, columns: list[str], said: str
) -> None:
    with pytest.raises(Exception, match=said):
        _save(spark.range(0, 1, 1, 1).selectExpr(*columns), broker)


def test_a_record_that_the_topic_does_not_take_is_told(
    spark: SparkSession, broker: BrokerProcess, topics: Topics
) -> None:
    topic = topics.new(settings={"max.message.bytes": "500"})
    with pytest.raises(Exception, match=rf"larger than topic '{topic}' takes \(max\.message\.bytes\)"):
        _save(spark.range(0, 1, 1, 1).selectExpr("repeat('x', 1000) as value"), broker, topic=topic)


def test_a_topic_is_not_overwritten(spark: SparkSession, broker: BrokerProcess) -> None:
    with pytest.raises(Exception, match="mode=overwrite"):
        _numbers(spark, 1).write.format("millstream").mode("overwrite").option("topic", "t").option(
            "kafka.bootstrap.servers", broker.address
        ).save()
