"""Lone tasks as their worker has them, with a desk and a broker; without Spark, which would run them."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, StructField, StructType

from millstream.pipelines.spark.sink.protocol import Fate
from millstream.pipelines.spark.sink.writers import Written, stream_writer
from millstream.pipelines.spark.stages import PROPERTY, Desk, DeskServer, Stage, desk_line
from tests.compatibility.spark_sinks import Sink
from tests.pipelines.topics import Topics

HERE = "127.0.0.1"
APPLICATION = "local-1"


@pytest.fixture
def desk() -> Iterator[str]:
    """The address of one where each stage is of one task."""
    address = DeskServer(Desk(lambda application, number: Stage(1, 0)), HERE).address(HERE, APPLICATION)
    yield address
    desk_line(address).close()
    TaskContext._setTaskContext(None)


def run(sink: Sink, desk: str, batch: int, value: bytes, attempt: int) -> Written:
    """A task's whole life."""
    context = TaskContext._getOrCreate()
    context._partitionId, context._stageId, context._attemptNumber = 0, batch, attempt
    context._localProperties = {
        "sql.streaming.queryId": sink.query,
        "streaming.sql.batchId": str(batch),
        PROPERTY: desk,
    }
    given = {"kafka.bootstrap.servers": sink.address, "topic": sink.topic}
    writer = stream_writer(given, StructType([StructField("value", BinaryType())]), False)
    written = writer.write(iter([pa.record_batch({"value": pa.array([value])})]))
    assert isinstance(written, Written)
    return written


@pytest.mark.parametrize(("attempt", "fate"), [(0, Fate.OPEN), (1, Fate.ABORTED)])
def test_a_lone_task_that_is_tried_again_ends_what_it_left_open_before(
    topics: Topics, desk: str, monkeypatch: pytest.MonkeyPatch, attempt: int, fate: Fate
) -> None:
    """No batch may come after it that would: readers would wait for as long as the stream has nothing to write."""
    monkeypatch.setattr("millstream.pipelines.spark.sink.coordinator.LOOK_MS", 3_600_000)
    sink = Sink(topics.address)
    assert run(sink, desk, 0, b"a", 0).is_settled
    stray = sink.write(b"stray", batch=1)
    assert run(sink, desk, 1, b"b", attempt).is_settled
    assert sink.fate(stray) is fate
    sink.abort(2, stray)
    assert sink.values() == [b"a", b"b"]
