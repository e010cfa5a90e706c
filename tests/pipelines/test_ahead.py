"""What a driver reads ahead of its tasks, from a real broker; without Spark."""

import threading
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper
from pyspark.sql.streaming.datasource import ReadAllAvailable

from millstream.pipelines.spark.ahead import BYTES_MAX, Ahead
from millstream.pipelines.spark.options import stream_options
from millstream.pipelines.spark.planning import DataLost
from millstream.pipelines.spark.reading import read_together
from millstream.pipelines.spark.source import StreamReader, read_task
from millstream.pipelines.spark.task import Pack, Task
from tests.pipelines.test_reading import offsets, task_of
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess

WAIT_S = 60.0


@pytest.fixture
def ahead() -> Iterator[Ahead]:
    ahead = Ahead(WAIT_S)
    yield ahead
    ahead.close()


def read_by(ahead: Ahead, *tasks: Task) -> pa.RecordBatch | None:
    ahead.plan(tasks)
    ahead.begin()
    return ahead.taken(tasks)


def test_what_was_read_ahead_is_what_the_tasks_would_have_read(topics: Topics, ahead: Ahead) -> None:
    names = [topics.new() for _ in range(2)]
    for name in names:
        topics.put(name, [name] * 3, key=b"k", headers=[("from", b"test")])
    tasks = [task_of(topics.address, name, 1, 3, includeHeaders="true") for name in names]
    for _ in range(2):  # By the same thread.
        assert [read_by(ahead, *tasks)] == list(read_together(tasks))


def test_records_of_aborted_transactions_are_left_out(topics: Topics, ahead: Ahead) -> None:
    topic = topics.new()
    with topics.transaction("t", topic, ["no"]) as producer:
        producer.abort_transaction(30)
    topics.put(topic, ["yes"])
    ready = read_by(ahead, task_of(topics.address, topic, 0, 3, **{"kafka.isolation.level": "read_committed"}))
    assert ready is not None
    assert ready["value"].to_pylist() == [b"yes"]


def test_it_is_of_no_use_to_other_ranges(topics: Topics, ahead: Ahead) -> None:
    topic = topics.new()
    topics.put(topic, ["x"] * 3)
    assert ahead.taken([task_of(topics.address, topic, 0, 3)]) is None
    ahead.plan([task_of(topics.address, topic, 0, 2)])
    ahead.begin()
    assert ahead.taken([task_of(topics.address, topic, 0, 3)]) is None
    assert ahead.taken([task_of(topics.address, topic, 0, 2)]) is not None
    assert ahead.taken([task_of(topics.address, topic, 0, 2)]) is None, "it was taken"


def test_what_is_large_stays_with_the_tasks_and_is_not_read_twice_again(topics: Topics, ahead: Ahead) -> None:
    topic = topics.new()
    topics.put(topic, [b"x" * 100_000] * 6)
    many = [task_of(topics.address, topic, 0, BYTES_MAX // 100_000 + 1)]
    assert read_by(ahead, *many) is None
    ahead.plan(many)
    assert ahead._reading is None, "records are known to be large"
    assert read_by(ahead, task_of(topics.address, topic, 3, 5)) is not None


def test_after_a_record_too_large_to_hand_over_it_is_tried_again_in_time(topics: Topics, ahead: Ahead) -> None:
    topic = topics.new()
    topics.put(topic, [b"x" * 2 * BYTES_MAX, b"small"])
    large, small = task_of(topics.address, topic, 0, 1), task_of(topics.address, topic, 1, 2)
    assert read_by(ahead, large) is None
    for _ in range(10):
        if read_by(ahead, small) is not None:
            return
    raise AssertionError("a stream of small records is read by its tasks for ever")


def test_what_is_not_there_in_time_or_not_at_all_is_left_to_the_tasks(
    topics: Topics, ahead: Ahead, tmp_path: Path
) -> None:
    topic = topics.new()
    topics.put(topic, ["x"] * 3)
    topics.cut(topic, before=2)
    lost = task_of(topics.address, topic, 0, 3)
    assert read_by(ahead, lost) is None
    with pytest.raises(DataLost):
        offsets(lost)
    assert read_by(ahead, task_of(topics.address, topic, 2, 3)) is not None, "what comes after is read"
    with BrokerProcess(tmp_path) as broker:
        address = broker.address
    away, hasty = task_of(address, topic, 0, 3), Ahead(0.0)
    assert read_by(hasty, away) is None
    assert read_by(hasty, task_of(topics.address, topic, 2, 3)) is None, "one at a time"


def test_what_was_planned_is_read_when_that_is_told_and_once(
    topics: Topics, ahead: Ahead, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has to answer Spark meanwhile would wait for who reads."""
    topic = topics.new()
    topics.put(topic, ["x"])
    tasks = [task_of(topics.address, topic, 0, 1)]
    reads: list[str] = []

    def noted(tasks: Sequence[Task]) -> Generator[pa.RecordBatch, None, None]:
        reads.append(threading.current_thread().name)
        return read_together(tasks)

    monkeypatch.setattr("millstream.pipelines.spark.ahead.read_together", noted)
    ahead.begin()
    ahead.plan(tasks)
    assert ahead.taken(tasks) is None and not reads, "nobody said so"
    ahead.begin()
    ahead.begin()
    assert ahead.taken(tasks) is not None
    assert reads == ["look-ahead"]


def test_it_is_told_when_spark_is_done_with_the_micro_batch_before(topics: Topics) -> None:
    topic = topics.new()
    topics.put(topic, ["x"])
    given = {"kafka.bootstrap.servers": topics.address, "subscribe": topic, "startingOffsets": "earliest"}
    stream = StreamReader(stream_options(given))
    start = stream.initialOffset()
    stream.latestOffset(start, ReadAllAvailable())
    reading = stream._ahead._reading
    assert reading is not None and not reading.is_begun
    stream.commit(start)
    assert reading.is_done.wait(WAIT_S)
    assert reading.found is not None
    stream.stop()


def hands_over(stream: object) -> bool:
    """As Spark asks it."""
    return isinstance(stream, _SimpleStreamReaderWrapper)


def planned(stream: StreamReader) -> tuple[list[type], list[bytes]]:
    """The kinds of tasks that read all there is, and the values in them."""
    stream._ahead = Ahead(WAIT_S)
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadAllAvailable())
    stream.commit(start)
    tasks = stream.partitions(start, end)
    stream.stop()
    values = [value for each in tasks for batch in read_task(each) for value in batch["value"].to_pylist()]
    return [type(each) for each in tasks], values


def test_a_small_micro_batch_is_handed_over_and_its_one_task_would_read_the_same(topics: Topics) -> None:
    topic = topics.new(2)
    for partition in (0, 1):
        topics.put(topic, ["x"], partition)
    given = {"kafka.bootstrap.servers": topics.address, "subscribe": topic, "startingOffsets": "earliest"}
    stream = StreamReader(stream_options(given))
    assert not hands_over(stream)
    assert planned(stream) == ([Pack], [b"x", b"x"])
    assert hands_over(stream)
    (batch,) = stream.getCache({}, {})
    assert batch["value"].to_pylist() == [b"x", b"x"]
    assert not hands_over(stream)

    spread = StreamReader(stream_options({**given, "minPartitions": "2"}))
    assert planned(spread) == ([Task, Task], [b"x", b"x"])
    assert not hands_over(spread), "whoever wants two tasks is given them"
