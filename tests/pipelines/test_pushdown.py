"""A WHERE on places and times reads those records alone: Spark counts what its workers hand over."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pipelines.tables import load, offsets, places, read_count
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess

THEN_MS = 1_700_000_000_000
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def hundred(topics: Topics) -> str:
    """Fifty records in each of two partitions, a millisecond apart; those of the second a minute later."""
    topic = topics.new(partitions=2)
    topics.put(topic, [f"a{number}" for number in range(50)], 0, timestamp_ms=THEN_MS)
    topics.put(topic, [f"b{number}" for number in range(50)], 1, timestamp_ms=THEN_MS + 60_000)
    return topic


@pytest.mark.parametrize(
    ("condition", "rows", "read"),
    [
        ("true", 100, 100),
        ("offset >= 40", 20, 20),
        ("offset BETWEEN 10 AND 14 AND partition = 1", 5, 5),
        ("offset = 7 AND partition <> 0", 1, 1),
        ("offset IN (3, 5)", 4, 6),
        (f"timestamp >= timestamp_millis({THEN_MS + 60_030})", 20, 20),
        (f"timestamp > timestamp_millis({THEN_MS + 45})", 54, 54),
        (f"timestamp < timestamp_millis({THEN_MS + 5})", 5, 100),
        (f"offset < 5 AND timestamp >= timestamp_millis({THEN_MS + 60_045})", 0, 0),
        ("offset >= 1000", 0, 0),
        ("topic = 'another'", 0, 0),
    ],
)
def test_only_what_is_asked_for_is_read(
    spark: SparkSession, topics: Topics, hundred: str, condition: str, rows: int, read: int
) -> None:
    assert read_count(load(spark, topics.address, subscribe=hundred).where(condition)) == (rows, read)


def test_a_bound_on_disorder_lets_reading_end_in_time(spark: SparkSession, topics: Topics, hundred: str) -> None:
    table = load(spark, topics.address, subscribe=hundred, maxTimestampDisorder="10ms")
    assert read_count(table.where(f"timestamp < timestamp_millis({THEN_MS + 5})")) == (5, 15)


def test_late_records_are_found_though_they_lie_behind_younger_ones(spark: SparkSession, topics: Topics) -> None:
    topic = topics.new()
    for moment_ms in (20, 10, 30, 5):
        topics.put(topic, ["x"], timestamp_ms=THEN_MS + moment_ms)
    table = load(spark, topics.address, subscribe=topic)
    assert offsets(table.where(f"timestamp < timestamp_millis({THEN_MS + 15})")) == [1, 3]
    assert offsets(table.where(f"timestamp >= timestamp_millis({THEN_MS + 15})")) == [0, 2]
    assert read_count(table.where(f"timestamp >= timestamp_millis({THEN_MS + 25})")) == (1, 2)


def test_files_are_read_no_further_either(spark: SparkSession, broker: BrokerProcess, hundred: str) -> None:
    table = spark.read.format("millstream").option("path", str(Path(broker.data))).option("subscribe", hundred).load()
    since = f"timestamp >= timestamp_millis({THEN_MS + 60_030})"
    assert read_count(table.where(f"{since} AND offset < 35")) == (5, 5)


def test_a_session_where_pushdown_is_off_gives_the_same_rows(spark: SparkSession, topics: Topics, hundred: str) -> None:
    """Off is Spark's default, and a session that somebody else made has it."""
    fresh = spark.newSession()
    fresh.conf.set(PUSHDOWN, "false")
    table = load(fresh, topics.address, subscribe=hundred).where("offset >= 48")
    assert read_count(table) == (4, 100)
    assert places(table) == [(hundred, 0, 48), (hundred, 0, 49), (hundred, 1, 48), (hundred, 1, 49)]
