"""``df.writeStream.format("millstream")``: batches that come out once, and once more where that was asked for."""

import asyncio
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from millstream.client.cluster import Cluster
from millstream.client.coordinators import Coordinators
from millstream.client.transactions import list_transactions
from millstream.client.wire import parse_addresses
from tests.pipelines.records import records_of, values_of
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess

#: How often something is tried that a busy machine may keep from happening.
TRIES = 10


def _stream(spark: SparkSession, broker: BrokerProcess, topic: str, **options: str) -> DataFrame:
    return (
        spark.readStream.format("millstream")
        .options(**{"kafka.bootstrap.servers": broker.address}, subscribe=topic, startingOffsets="earliest", **options)
        .load()
    )


def _start(frame: DataFrame, broker: BrokerProcess, checkpoint: Path, **options: str) -> StreamingQuery:
    return (
        frame.writeStream.format("millstream")
        .options(**{"kafka.bootstrap.servers": broker.address}, **options)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )


async def _transactional_ids(address: str) -> list[str]:
    async with Cluster(parse_addresses(address)) as cluster:
        return [each.id for each in await list_transactions(Coordinators(cluster))]


def _task_ids(broker: BrokerProcess, query: StreamingQuery) -> list[str]:
    """The transactional ids that tasks of the query had for themselves."""
    return [name for name in asyncio.run(_transactional_ids(broker.address)) if f"/{query.id}/" in name]


def _dies_once(
    mark: Path, at: bytes, address: str, target: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Rows as they are; who meets a certain value is killed over it, once, when others have written theirs."""

    def passed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if at in batch.column("value").to_pylist() and not mark.exists():
                while not records_of(address, target, isolation="read_uncommitted"):
                    time.sleep(0.1)
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    return passed


def test_a_stream_is_copied_batch_by_batch(
    spark: SparkSession, broker: BrokerProcess, topics: Topics, tmp_path: Path
) -> None:
    source, target = topics.new(2), topics.new(3)
    values = [b"%d" % number for number in range(100)]
    topics.put(source, values[:50], 0)
    topics.put(source, values[50:], 1)
    frame = _stream(spark, broker, source, maxOffsetsPerTrigger="30").select("key", "value")
    _start(frame, broker, tmp_path / "c", topic=target).awaitTermination()
    assert values_of(broker.address, target) == sorted(values)
    topics.put(source, [b"more"])
    _start(frame, broker, tmp_path / "c", topic=target).awaitTermination()
    assert values_of(broker.address, target) == sorted([*values, b"more"])


def test_a_stream_goes_by_few_transactional_ids_however_long_it_runs(
    spark: SparkSession, broker: BrokerProcess, topics: Topics, tmp_path: Path
) -> None:
    """A worker takes one again after the next batch; brokers remember each for a week."""
    source, target = topics.new(2), topics.new()
    for partition in (0, 1):
        topics.put(source, [b"%d" % number for number in range(10)], partition)
    frame = _stream(spark, broker, source, maxOffsetsPerTrigger="2", minPartitions="2").select("value")
    query = _start(frame, broker, tmp_path / "c", topic=target)
    query.awaitTermination()
    assert len(values_of(broker.address, target)) == 20
    ids = _task_ids(broker, query)
    workers = {name.rsplit("/", 1)[0] for name in ids}
    assert 2 <= len(ids) <= 2 * 2 * len(workers) < 20


def test_a_batch_of_one_task_is_committed_by_that_task(
    spark: SparkSession, broker: BrokerProcess, topics: Topics, tmp_path: Path
) -> None:
    """It needs no transaction of its own, nor does the query when it is started again.

    On a busy machine it may not be told in time that it is alone, and goes the other way; not each time.
    """
    for number in range(TRIES):
        source, target = topics.new(), topics.new(2)
        values = [b"%d" % number for number in range(40)]
        frame = _stream(spark, broker, source, maxOffsetsPerTrigger="10").select("value")
        for some in (values[:20], values[20:]):
            topics.put(source, some)
            query = _start(frame, broker, tmp_path / str(number), topic=target)
            query.awaitTermination()
        assert values_of(broker.address, target) == sorted(values)
        assert {record.partition for record in records_of(broker.address, target)} == {0, 1}
        if not _task_ids(broker, query):
            return
    pytest.fail("tasks had transactions of their own each time")


def test_a_batch_of_one_task_that_is_large_is_committed_as_those_of_several_are(
    spark: SparkSession, broker: BrokerProcess, topics: Topics, tmp_path: Path
) -> None:
    """The transaction of a decision would time out over it."""
    source, target = topics.new(), topics.new()
    values = [b"%02d" % number + bytes(100_000) for number in range(15)]
    topics.put(source, values)
    query = _start(_stream(spark, broker, source).select("value"), broker, tmp_path / "c", topic=target)
    query.awaitTermination()
    assert _task_ids(broker, query)
    assert values_of(broker.address, target) == values


@pytest.mark.parametrize("tasks", [(1, 2), (2, 1), (1, 1)])
def test_a_batch_that_comes_again_with_another_number_of_tasks_shows_once(
    spark: SparkSession, broker: BrokerProcess, topics: Topics, tmp_path: Path, tasks: tuple[int, int]
) -> None:
    """Its driver died when all was committed but for Spark's own log."""
    source, target = topics.new(2), topics.new(2)
    values = [b"%d" % number for number in range(8)]
    for number, count in enumerate(tasks):
        for partition in (0, 1):
            topics.put(source, values[4 * number + 2 * partition :][:2], partition)
        frame = _stream(spark, broker, source, minPartitions=str(count)).select("value")
        _start(frame, broker, tmp_path / "c", topic=target).awaitTermination()
        for entry in (tmp_path / "c" / "commits").glob(f"*{number}*"):
            entry.unlink()
        assert values_of(broker.address, target) == values[: 4 * (number + 1)]
    _start(frame, broker, tmp_path / "c", topic=target).awaitTermination()
    assert values_of(broker.address, target) == values


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_a_batch_that_is_written_again_shows_once_or_with_at_least_once_twice(
    spark: SparkSession, broker: BrokerProcess, topics: Topics, tmp_path: Path, delivery: str
) -> None:
    """One task has written all of its rows when the other's process is killed."""
    source, target = topics.new(2), topics.new(2)
    values = [b"%d" % number for number in range(1_000)]
    topics.put(source, values[:10], 0)
    topics.put(source, values[10:], 1)
    frame = _stream(spark, broker, source, minPartitions="2").select("value")
    frame = frame.mapInArrow(_dies_once(tmp_path / "died", values[-1], broker.address, target), "value binary")
    query = _start(frame, broker, tmp_path / "c", topic=target, delivery=delivery)
    with pytest.raises(StreamingQueryException, match="worker exited"):
        query.awaitTermination()
    assert (tmp_path / "died").exists()
    _start(frame, broker, tmp_path / "c", topic=target, delivery=delivery).awaitTermination()
    found = values_of(broker.address, target)
    assert set(found) == set(values)
    if delivery == "exactly-once":
        assert len(found) == len(values)
    else:
        assert len(found) > len(values)


def test_foreach_batch_writes_each_version_once(
    spark: SparkSession, broker: BrokerProcess, topics: Topics, tmp_path: Path
) -> None:
    source, target = topics.new(), topics.new()
    topics.put(source, [b"a", b"b"])

    def twice(frame: DataFrame, version: int) -> None:
        for _ in range(2):
            frame.write.format("millstream").mode("append").options(
                **{"kafka.bootstrap.servers": broker.address},
                topic=target,
                txnAppId=f"copy-{target}",
                txnVersion=str(version),
            ).save()

    frame = _stream(spark, broker, source).select("value")
    frame.writeStream.foreachBatch(twice).option("checkpointLocation", str(tmp_path / "c")).trigger(
        availableNow=True
    ).start().awaitTermination()
    assert [record.value for record in records_of(broker.address, target)] == [b"a", b"b"]


def test_a_checkpoint_that_is_older_than_what_was_written_is_refused(
    spark: SparkSession, broker: BrokerProcess, topics: Topics, tmp_path: Path
) -> None:
    """Its batches were taken for replays, and the rows in them lost, until it had caught up."""
    source, target = topics.new(), topics.new()
    frame = _stream(spark, broker, source).select("value")
    for number in range(3):
        topics.put(source, [b"%d" % number])
        _start(frame, broker, tmp_path / "c", topic=target).awaitTermination()
        if not number:
            shutil.copytree(tmp_path / "c", tmp_path / "copy")
    topics.put(source, [b"new"])
    with pytest.raises(StreamingQueryException, match=r"batch 2 of this query is written already.*checkpointLocation"):
        _start(frame, broker, tmp_path / "copy", topic=target).awaitTermination()
    assert values_of(broker.address, target) == [b"0", b"1", b"2"]


def test_ordinary_transactions_do_where_a_time_out_is_asked_for(
    spark: SparkSession, broker: BrokerProcess, topics: Topics, tmp_path: Path
) -> None:
    source, target = topics.new(), topics.new()
    topics.put(source, [b"a", b"b"])
    frame = _stream(spark, broker, source).select("value")
    _start(frame, broker, tmp_path / "c", topic=target, **{"kafka.transaction.timeout.ms": "60000"}).awaitTermination()
    assert values_of(broker.address, target) == [b"a", b"b"]
