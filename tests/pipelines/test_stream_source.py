"""A topic read as a stream: how far each micro-batch goes, and where the next run takes over."""

import json
import threading
import time
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.pipelines.tables import RUN_TIMEOUT_S, load_stream, places, run_available
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess


def test_a_run_reads_what_is_there_and_the_next_one_what_came_since(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.new()
    topics.put(topic, list("abc"))
    stream = load_stream(spark, topics.address, subscribe=topic, startingOffsets="earliest")
    assert run_available(stream, tmp_path) == [[(topic, 0, 0), (topic, 0, 1), (topic, 0, 2)]]
    assert run_available(stream, tmp_path) == []
    topics.put(topic, ["d"])
    assert run_available(stream, tmp_path) == [[(topic, 0, 3)]]


def test_a_micro_batch_reads_no_more_than_it_may(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    topic = topics.new(partitions=2)
    topics.put(topic, ["x"] * 30, 0)
    topics.put(topic, ["x"] * 10, 1)
    stream = load_stream(spark, topics.address, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=20)
    batches = run_available(stream, tmp_path)
    assert [len(batch) for batch in batches] == [20, 20]
    assert {partition: [place[1] for place in batches[0]].count(partition) for partition in (0, 1)} == {0: 15, 1: 5}
    assert len({place for batch in batches for place in batch}) == 40


def test_partitions_and_topics_that_come_later_are_read_from_their_first_record(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topics.put(topics.new(name="grow-a"), ["x"])
    stream = load_stream(spark, topics.address, subscribePattern="grow-.*", startingOffsets="latest")
    assert run_available(stream, tmp_path) == []
    topics.grow("grow-a", 2)
    topics.put("grow-a", ["y"], 1)
    topics.put(topics.new(name="grow-b"), ["z"])
    assert run_available(stream, tmp_path) == [[("grow-a", 1, 0), ("grow-b", 0, 0)]]


def test_they_are_picked_up_while_the_query_runs(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    topics.put(topics.new(name="live-a"), ["x"])
    seen = Seen()
    query = seen.start(
        load_stream(spark, topics.address, subscribePattern="live-.*", startingOffsets="earliest"), tmp_path
    )
    try:
        query.processAllAvailable()
        topics.grow("live-a", 2)
        topics.put("live-a", ["y"], 1)
        topics.put(topics.new(name="live-b"), ["z"])
        query.processAllAvailable()
    finally:
        query.stop()
    assert sorted(seen.places) == [("live-a", 0, 0), ("live-a", 1, 0), ("live-b", 0, 0)]


class Seen:
    """What a running query has given so far."""

    def __init__(self) -> None:
        self.places: list[tuple[str, int, int]] = []
        self.batches: list[int] = []

    def start(self, stream: DataFrame, checkpoint: Path) -> StreamingQuery:
        return (
            stream.writeStream.foreachBatch(self._take)
            .option("checkpointLocation", str(checkpoint))
            .trigger(processingTime="100 milliseconds")
            .start()
        )

    def wait_for(self, query: StreamingQuery, rows: int) -> None:
        """Return once so many rows have come."""
        deadline_s = time.monotonic() + RUN_TIMEOUT_S
        while len(self.places) < rows:
            assert time.monotonic() < deadline_s, f"{len(self.places)} rows came, {rows} were awaited"
            assert not query.awaitTermination(1), "the query ended"

    def _take(self, table: DataFrame, number: int) -> None:
        found = places(table)
        self.places += found
        self.batches.append(len(found))


def test_a_new_stream_starts_at_the_latest_while_others_write(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic, seen, is_over = topics.new(), Seen(), threading.Event()
    topics.put(topic, ["before"] * 5)

    def write() -> None:
        while not is_over.is_set():
            topics.put(topic, ["x"])

    writer = threading.Thread(target=write)
    writer.start()
    query = seen.start(load_stream(spark, topics.address, subscribe=topic, startingOffsets="latest"), tmp_path)
    try:
        seen.wait_for(query, 50)
        is_over.set()
        writer.join()
        query.processAllAvailable()
    finally:
        is_over.set()
        writer.join()
        query.stop()
    offsets = [offset for _, _, offset in seen.places]
    assert offsets == list(range(offsets[0], offsets[0] + len(offsets)))
    assert offsets[0] >= 5


def test_a_topic_that_is_deleted_is_gone_for_a_stream_that_takes_losses(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    kept, deleted, seen = topics.new(), topics.new(), Seen()
    topics.put(deleted, ["x"])
    options = {"subscribePattern": f"{kept}|{deleted}", "startingOffsets": "earliest", "failOnDataLoss": "false"}
    query = seen.start(load_stream(spark, topics.address, **options), tmp_path)
    try:
        seen.wait_for(query, 1)
        topics.delete(deleted)
        topics.put(kept, ["y"])
        seen.wait_for(query, 2)
    finally:
        query.stop()
    assert seen.places == [(deleted, 0, 0), (kept, 0, 0)]


def test_a_broker_that_is_killed_and_comes_back_is_waited_for(spark: SparkSession, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "broker") as broker:
        topics, seen = Topics(broker.address), Seen()
        topic = topics.new()
        topics.put(topic, ["a"])
        stream = load_stream(spark, broker.address, subscribe=topic, startingOffsets="earliest")
        query = seen.start(stream, tmp_path / "checkpoint")
        try:
            seen.wait_for(query, 1)
            broker.kill()
            assert not query.awaitTermination(1)
            broker.start()
            topics.put(topic, ["b"])
            seen.wait_for(query, 2)
        finally:
            query.stop()
    assert seen.places == [(topic, 0, 0), (topic, 0, 1)]


def test_a_micro_batch_waits_for_enough_records_but_not_for_ever(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.new()
    topics.put(topic, ["x"] * 3)
    seen = Seen()
    options = {"subscribe": topic, "startingOffsets": "earliest", "minOffsetsPerTrigger": 100}
    query = seen.start(load_stream(spark, topics.address, **options, maxTriggerDelay="3s"), tmp_path)
    try:
        seen.wait_for(query, 3)  # The first is not delayed.
        topics.put(topic, ["y"])
        topics.put(topic, ["y"])
        seen.wait_for(query, 5)
        topics.put(topic, ["z"] * 100)
        seen.wait_for(query, 105)
    finally:
        query.stop()
    assert seen.batches == [3, 2, 100]


def test_a_new_stream_may_start_anywhere(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    topic = topics.new()
    then_ms = 1_700_000_000_000
    topics.put(topic, ["x"] * 5, timestamp_ms=then_ms)
    starts: dict[str, dict[str, object]] = {
        "offsets": {"startingOffsets": json.dumps({topic: {"0": 3}})},
        "timestamp": {"startingTimestamp": then_ms + 2},
        "by-timestamp": {"startingOffsetsByTimestamp": json.dumps({topic: {"0": then_ms + 4}})},
    }
    found = {}
    for name, options in starts.items():
        stream = load_stream(spark, topics.address, subscribe=topic, **options)
        found[name] = [place[2] for batch in run_available(stream, tmp_path / name) for place in batch]
    assert found == {"offsets": [3, 4], "timestamp": [2, 3, 4], "by-timestamp": [4]}


def test_a_stream_takes_partitions_headers_and_tasks_as_a_batch_does(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.new(2)
    topics.put(topic, ["unread"], 0)
    topics.put(topic, ["x"] * 6, 1, headers=[("trace", b"1")])
    options = {"assign": json.dumps({topic: [1]}), "startingOffsets": "earliest", "includeHeaders": "true"}
    stream = load_stream(spark, topics.address, **options, minPartitions=3)
    found: list[tuple[object, ...]] = []

    def take(table: DataFrame, number: int) -> None:
        rows = table.selectExpr("partition", "headers", "spark_partition_id() AS task").collect()
        found.extend(tuple(row) for row in rows)

    query = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path))
    assert query.trigger(availableNow=True).start().awaitTermination(RUN_TIMEOUT_S)
    assert sorted(found) == [(1, [("trace", b"1")], task) for task in (0, 0, 1, 1, 2, 2)]


def test_records_lost_between_runs_are_an_error_unless_that_is_allowed(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.new()
    topics.put(topic, ["x"] * 3)
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    assert len(run_available(load_stream(spark, topics.address, **options), tmp_path)[0]) == 3
    topics.put(topic, ["y"] * 5)
    topics.cut(topic, before=6)
    with pytest.raises(Exception, match=f"failOnDataLoss=true: partition {topic}-0 starts at offset 6"):
        run_available(load_stream(spark, topics.address, **options), tmp_path)
    lenient = load_stream(spark, topics.address, **options, failOnDataLoss="false")
    assert run_available(lenient, tmp_path) == [[(topic, 0, 6), (topic, 0, 7)]]


def test_a_topic_deleted_between_runs_is_lost_data_too(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    for name in ("gone-a", "gone-b"):
        topics.put(topics.new(name=name), ["x"] * 3)
    options = {"subscribePattern": "gone-.*", "startingOffsets": "earliest"}
    assert len(run_available(load_stream(spark, topics.address, **options), tmp_path)[0]) == 6
    topics.delete("gone-b")
    topics.put("gone-a", ["y"])
    with pytest.raises(Exception, match="failOnDataLoss=true: partition gone-b-0 is gone"):
        run_available(load_stream(spark, topics.address, **options), tmp_path)
    lenient = load_stream(spark, topics.address, **options, failOnDataLoss="false")
    assert run_available(lenient, tmp_path) == [[("gone-a", 0, 3)]]


def test_a_checkpoint_of_another_source_is_refused(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    topic = topics.new()
    topics.put(topic, ["x"])
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    query = rate.writeStream.format("noop").option("checkpointLocation", str(tmp_path)).trigger(once=True).start()
    assert query.awaitTermination(60)
    with pytest.raises(Exception, match=r"checkpointLocation: its offsets .* were written by another source"):
        run_available(load_stream(spark, topics.address, subscribe=topic, startingOffsets="earliest"), tmp_path)


def test_uncommitted_records_hold_a_stream_of_committed_ones(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.new()
    options = {"subscribe": topic, "startingOffsets": "earliest", "kafka__isolation__level": "read_committed"}
    stream = load_stream(spark, topics.address, **options)
    with topics.transaction("holding", topic, ["a"]) as producer:
        assert run_available(stream, tmp_path) == []
        producer.commit_transaction(30)
    topics.put(topic, ["b"])
    assert run_available(stream, tmp_path) == [[(topic, 0, 0), (topic, 0, 2)]]
