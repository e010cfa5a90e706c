"""A topic read as a table, as it stands when the query is planned."""

import json
import os

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from millstream.pipelines.spark.options import batch_options
from millstream.pipelines.spark.planning import DataLost
from millstream.pipelines.spark.source import COLUMNS, HEADERS, BatchReader, read_task
from tests.pipelines.tables import load, offsets, places
from tests.pipelines.topics import Topics
from tests.pipelines.wiretap import Wiretap

#: When the records of these tests were made, one millisecond apart.
THEN_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def ten(topics: Topics) -> str:
    """A topic with ten records in one partition."""
    topic = topics.new()
    topics.put(topic, [f"v{number}" for number in range(10)], timestamp_ms=THEN_MS)
    return topic


@pytest.fixture(scope="module")
def pair(topics: Topics) -> str:
    """A topic with three records in each of two partitions, those of the second a second later."""
    topic = topics.new(partitions=2)
    topics.put(topic, ["a", "b", "c"], 0, timestamp_ms=THEN_MS)
    topics.put(topic, ["d", "e", "f"], 1, timestamp_ms=THEN_MS + 1000)
    return topic


def test_a_topic_is_a_table_with_the_columns_of_sparks_kafka_source(spark: SparkSession, topics: Topics) -> None:
    topic = topics.new(partitions=2)
    topics.put(topic, ["a", None], partition=0, timestamp_ms=THEN_MS, key=b"k")
    topics.put(topic, ["b"], partition=1, timestamp_ms=THEN_MS + 500)
    table = load(spark, topics.address, subscribe=topic)
    assert table.schema == StructType(COLUMNS)
    rows = table.selectExpr("*", "unix_millis(timestamp) AS ms").orderBy("partition", "offset").collect()
    assert [(row.key, row.value) for row in rows] == [(b"k", b"a"), (b"k", None), (None, b"b")]
    assert [(row.topic, row.partition, row.offset, row.ms, row.timestampType) for row in rows] == [
        (topic, 0, 0, THEN_MS, 0),
        (topic, 0, 1, THEN_MS + 1, 0),
        (topic, 1, 0, THEN_MS + 500, 0),
    ]


def test_the_source_is_found_without_being_registered(spark: SparkSession, topics: Topics, ten: str) -> None:
    """Spark finds the module pyspark_millstream by its name alone."""
    fresh = spark.newSession()
    assert load(fresh, topics.address, subscribe=ten).count() == 10


def test_headers_are_a_column_when_asked_for(spark: SparkSession, topics: Topics) -> None:
    topic = topics.new()
    topics.put(topic, ["a"], headers=[("trace", b"1"), ("trace", None)])
    topics.put(topic, ["b"])
    table = load(spark, topics.address, subscribe=topic, includeHeaders="true")
    assert table.schema == StructType([*COLUMNS, HEADERS])
    rows = [row.headers for row in table.orderBy("offset").collect()]
    assert rows == [[("trace", b"1"), ("trace", None)], None]


def test_the_brokers_time_is_told_from_the_producers(spark: SparkSession, topics: Topics) -> None:
    topic = topics.new(settings={"message.timestamp.type": "LogAppendTime"})
    topics.put(topic, ["a"], timestamp_ms=THEN_MS)
    (row,) = (
        load(spark, topics.address, subscribe=topic)
        .selectExpr("timestampType", "unix_millis(timestamp) AS ms")
        .collect()
    )
    assert row.timestampType == 1
    assert row.ms > THEN_MS


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_are_read(spark: SparkSession, topics: Topics, codec: str) -> None:
    topic = topics.new()
    producer = Producer(
        {"bootstrap.servers": topics.address, "compression.type": codec, "linger.ms": 20, "log_level": 2}
    )
    for number in range(500):
        producer.produce(topic, value=b"the same words again %d" % number)
    assert producer.flush(30) == 0
    values = [bytes(row.value) for row in load(spark, topics.address, subscribe=topic).orderBy("offset").collect()]
    assert values == [b"the same words again %d" % number for number in range(500)]


def test_several_topics_may_be_subscribed_to(spark: SparkSession, topics: Topics, ten: str, pair: str) -> None:
    table = load(spark, topics.address, subscribe=f"{ten}, {pair}")
    assert {(topic, partition) for topic, partition, _ in places(table)} == {(ten, 0), (pair, 0), (pair, 1)}
    assert table.count() == 16


def test_topics_may_be_subscribed_to_by_a_pattern_of_their_whole_name(spark: SparkSession, topics: Topics) -> None:
    for name in ("fruit-apple", "fruit-pear", "not-fruit-pear"):
        topics.put(topics.new(name=name), ["x"])
    table = load(spark, topics.address, subscribePattern="fruit-.*")
    assert [place[0] for place in places(table)] == ["fruit-apple", "fruit-pear"]
    assert places(load(spark, topics.address, subscribePattern="nothing-.*")) == []


def test_partitions_may_be_assigned(spark: SparkSession, topics: Topics, ten: str, pair: str) -> None:
    table = load(spark, topics.address, assign=json.dumps({pair: [1], ten: [0]}))
    assert {place[:2] for place in places(table)} == {(pair, 1), (ten, 0)}


def test_offsets_bound_a_batch(spark: SparkSession, topics: Topics, ten: str) -> None:
    def read(**options: object) -> list[int]:
        return offsets(load(spark, topics.address, subscribe=ten, **options))

    assert read(startingOffsets="earliest", endingOffsets="latest") == list(range(10))
    start, stop = json.dumps({ten: {"0": 3}}), json.dumps({ten: {"0": 7}})
    assert read(startingOffsets=start, endingOffsets=stop) == [3, 4, 5, 6]
    first, last = json.dumps({ten: {"0": -2}}), json.dumps({ten: {"0": -1}})
    assert read(startingOffsets=first, endingOffsets=stop) == list(range(7))
    assert read(startingOffsets=start, endingOffsets=last) == list(range(3, 10))


def test_timestamps_bound_a_batch(spark: SparkSession, topics: Topics, ten: str) -> None:
    def read(**options: object) -> list[int]:
        return offsets(load(spark, topics.address, subscribe=ten, **options))

    assert read(startingTimestamp=THEN_MS + 4) == [4, 5, 6, 7, 8, 9]
    assert read(endingTimestamp=THEN_MS + 4) == [0, 1, 2, 3]
    assert read(startingTimestamp=THEN_MS + 2, endingTimestamp=THEN_MS + 5) == [2, 3, 4]
    assert read(endingTimestamp=THEN_MS + 5000) == list(range(10))


def test_timestamps_may_be_given_for_each_partition(spark: SparkSession, topics: Topics, pair: str) -> None:
    starts = json.dumps({pair: {"0": THEN_MS + 1, "1": THEN_MS + 1002}})
    stops = json.dumps({pair: {"0": THEN_MS + 2, "1": THEN_MS + 9000}})
    table = load(
        spark, topics.address, subscribe=pair, startingOffsetsByTimestamp=starts, endingOffsetsByTimestamp=stops
    )
    assert places(table) == [(pair, 0, 1), (pair, 1, 2)]


def test_where_no_record_is_young_enough_the_strategy_decides(spark: SparkSession, topics: Topics, pair: str) -> None:
    late = {"subscribe": pair, "startingTimestamp": THEN_MS + 500}
    with pytest.raises(Exception, match=f"startingTimestamp={THEN_MS + 500}: no record is as young in {pair}-0"):
        load(spark, topics.address, **late).collect()
    table = load(spark, topics.address, **late, startingOffsetsByTimestampStrategy="latest")
    assert {place[1] for place in places(table)} == {1}


def test_a_partition_is_split_over_as_many_tasks_as_asked(spark: SparkSession, topics: Topics, ten: str) -> None:
    def tasks(**options: object) -> int:
        table = load(spark, topics.address, subscribe=ten, **options)
        assert offsets(table) == list(range(10))
        return table.rdd.getNumPartitions()

    assert tasks() == 1
    assert tasks(minPartitions=4) == 4
    assert tasks(maxRecordsPerPartition=3) == 4


def test_only_committed_records_are_shown_under_read_committed(spark: SparkSession, topics: Topics) -> None:
    topic = topics.new()
    with topics.transaction("first", topic, ["a", "b"]) as producer:
        producer.commit_transaction(30)
    with topics.transaction("second", topic, ["c"]) as producer:
        producer.abort_transaction(30)
    with topics.transaction("third", topic, ["d"]) as producer:
        producer.commit_transaction(30)
    with topics.transaction("fourth", topic, ["e"]) as producer:
        committed = load(spark, topics.address, subscribe=topic, kafka__isolation__level="read_committed")
        assert [bytes(row.value) for row in committed.orderBy("offset").collect()] == [b"a", b"b", b"d"]
        everything = load(spark, topics.address, subscribe=topic, kafka__isolation__level="read_uncommitted")
        assert [bytes(row.value) for row in everything.orderBy("offset").collect()] == [b"a", b"b", b"c", b"d", b"e"]
        producer.abort_transaction(30)


def test_the_prefix_names_the_connections(spark: SparkSession, topics: Topics, ten: str) -> None:
    """Those of the driver and of the worker; no group is joined, so none may appear."""
    with Wiretap(topics.address) as tap:
        assert load(spark, tap.address, subscribe=ten, groupIdPrefix="reports").count() == 10
    assert len(tap.heard) >= 2
    assert all(b"\x00\x07reports" in sent for sent in tap.heard)
    assert not [group for group in topics.groups() if group.startswith("reports")]


def test_records_larger_than_a_fetch_are_read(spark: SparkSession, topics: Topics) -> None:
    topic = topics.new()
    big = os.urandom(200_000)
    topics.put(topic, [big, b"small", big])
    table = load(spark, topics.address, subscribe=topic, kafka__max__partition__fetch__bytes=1000)
    assert [len(row.value) for row in table.orderBy("offset").collect()] == [200_000, 5, 200_000]


def test_an_empty_topic_is_an_empty_table(spark: SparkSession, topics: Topics) -> None:
    assert load(spark, topics.address, subscribe=topics.new(partitions=2)).collect() == []


def test_records_cut_by_retention_are_not_waited_for(spark: SparkSession, topics: Topics) -> None:
    topic = topics.new()
    topics.put(topic, list("abcde"))
    topics.cut(topic, before=3)
    assert offsets(load(spark, topics.address, subscribe=topic)) == [3, 4]
    gone = json.dumps({topic: {"0": 1}})
    with pytest.raises(Exception) as refusal:
        load(spark, topics.address, subscribe=topic, startingOffsets=gone).collect()
    assert f"startingOffsets={gone}: partition {topic}-0 has offsets from 3 to 5 only, not 1" in str(refusal.value)
    table = load(spark, topics.address, subscribe=topic, startingOffsets=gone, failOnDataLoss="false")
    assert offsets(table) == [3, 4]


def test_a_topic_that_is_deleted_before_its_tasks_read_it_is_lost_data(topics: Topics) -> None:
    topic = topics.new()
    topics.put(topic, ["x"])
    asked = {"kafka.bootstrap.servers": topics.address, "subscribe": topic}
    (strict,) = BatchReader(batch_options(asked)).partitions()
    (lenient,) = BatchReader(batch_options({**asked, "failOnDataLoss": "false"})).partitions()
    topics.delete(topic)
    with pytest.raises(DataLost, match=f"partition {topic}-0 is gone; its records from offset 0 up to 1"):
        list(read_task(strict))
    assert list(read_task(lenient)) == []
