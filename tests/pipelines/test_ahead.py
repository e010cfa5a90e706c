"""What a driver reads ahead of its tasks, from a real broker; without Spark."""

import threading
from collections.abc import Generator, Sequence
from pathlib import Path
from queue import Queue

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


def ahead_of(*tasks: Task) -> pa.RecordBatch | None:
    ahead = Ahead(WAIT_S)
    ahead.begin(tasks)
    return ahead.taken(tasks)


def test_what_was_read_ahead_is_what_the_tasks_would_have_read(topics: Topics) -> None:
    names = [topics.new() for _ in range(2)]
    for name in names:
        topics.put(name, [name] * 3, key=b"k", headers=[("from", b"test")])
    tasks = [task_of(topics.address, name, 1, 3, includeHeaders="true") for name in names]
    assert [ahead_of(*tasks)] == list(read_together(tasks))


def test_records_of_aborted_transactions_are_left_out(topics: Topics) -> None:
    topic = topics.new()
    with topics.transaction("t", topic, ["no"]) as producer:
        producer.abort_transaction(30)
    topics.put(topic, ["yes"])
    ready = ahead_of(task_of(topics.address, topic, 0, 3, **{"kafka.isolation.level": "read_committed"}))
    assert ready is not None
    assert ready["value"].to_pylist() == [b"yes"]


def test_it_is_of_no_use_to_other_ranges(topics: Topics) -> None:
    topic = topics.new()
    topics.put(topic, ["x"] * 3)
    ahead = Ahead(WAIT_S)
    assert ahead.taken([task_of(topics.address, topic, 0, 3)]) is None
    ahead.begin([task_of(topics.address, topic, 0, 2)])
    assert ahead.taken([task_of(topics.address, topic, 0, 3)]) is None
    assert ahead.taken([task_of(topics.address, topic, 0, 2)]) is not None
    assert ahead.taken([task_of(topics.address, topic, 0, 2)]) is None, "it was taken"


def test_what_is_large_stays_with_the_tasks_and_is_not_read_twice_again(topics: Topics) -> None:
    topic = topics.new()
    topics.put(topic, [b"x" * 100_000] * 6)
    ahead, many = Ahead(WAIT_S), [task_of(topics.address, topic, 0, BYTES_MAX // 100_000 + 1)]
    ahead.begin(many)
    assert ahead.taken(many) is None
    ahead.begin(many)
    assert ahead._reading is None, "records are known to be large"
    few = [task_of(topics.address, topic, 3, 5)]
    ahead.begin(few)
    assert ahead.taken(few) is not None


def test_after_a_record_too_large_to_hand_over_it_is_tried_again_in_time(topics: Topics) -> None:
    topic = topics.new()
    topics.put(topic, [b"x" * 2 * BYTES_MAX, b"small"])
    ahead, large, small = Ahead(WAIT_S), task_of(topics.address, topic, 0, 1), task_of(topics.address, topic, 1, 2)
    ahead.begin([large])
    assert ahead.taken([large]) is None
    for _ in range(10):
        ahead.begin([small])
        if ahead.taken([small]) is not None:
            return
    raise AssertionError("a stream of small records is read by its tasks for ever")


def test_what_is_not_there_in_time_or_not_at_all_is_left_to_the_tasks(topics: Topics, tmp_path: Path) -> None:
    topic = topics.new()
    topics.put(topic, ["x"] * 3)
    topics.cut(topic, before=2)
    lost = task_of(topics.address, topic, 0, 3)
    assert ahead_of(lost) is None
    with pytest.raises(DataLost):
        offsets(lost)
    with BrokerProcess(tmp_path) as broker:
        address = broker.address
    away, ahead = task_of(address, topic, 0, 3), Ahead(0.0)
    ahead.begin([away])
    assert ahead.taken([away]) is None
    here = task_of(topics.address, topic, 2, 3)
    ahead.begin([here])
    assert ahead.taken([here]) is None, "one at a time"


def test_reading_waits_for_the_word_to_go_on_but_not_for_ever(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever plans says so; a Spark that never does is served all the same."""
    topic = topics.new()
    topics.put(topic, ["x"])
    tasks = [task_of(topics.address, topic, 0, 1)]
    happened: Queue[str] = Queue()

    class Word(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            happened.put("waits")
            return super().wait(timeout)

    def noted(tasks: Sequence[Task]) -> Generator[pa.RecordBatch, None, None]:
        happened.put("reads")
        return read_together(tasks)

    monkeypatch.setattr("millstream.pipelines.spark.ahead.read_together", noted)
    with monkeypatch.context() as patient:
        patient.setattr("millstream.pipelines.spark.ahead._HOLD_S", 3600.0)
        held = Ahead(WAIT_S, Word)
        held.begin(tasks)
        assert happened.get(timeout=WAIT_S) == "waits"
        assert happened.empty()
        held.go_on()
        assert happened.get(timeout=WAIT_S) == "reads"
        assert held.taken(tasks) is not None

    forgotten = Ahead(WAIT_S)
    forgotten.begin(tasks)
    assert happened.get(timeout=WAIT_S) == "reads"
    assert forgotten.taken(tasks) is not None


def test_who_takes_what_was_read_waits_no_longer_for_the_word(topics: Topics, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = topics.new()
    topics.put(topic, ["x"])
    tasks = [task_of(topics.address, topic, 0, 1)]
    monkeypatch.setattr("millstream.pipelines.spark.ahead._HOLD_S", 3600.0)
    assert ahead_of(*tasks) is not None


def test_that_spark_is_done_with_the_micro_batch_before_is_the_word(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millstream.pipelines.spark.ahead._HOLD_S", 3600.0)
    topic = topics.new()
    topics.put(topic, ["x"])
    given = {"kafka.bootstrap.servers": topics.address, "subscribe": topic, "startingOffsets": "earliest"}
    stream = StreamReader(stream_options(given))
    start = stream.initialOffset()
    stream.latestOffset(start, ReadAllAvailable())
    reading = stream._ahead._reading
    assert reading is not None and not reading.may_go_on.is_set()
    stream.commit(start)
    assert reading.may_go_on.is_set()
    reading.join(WAIT_S)
    assert reading.found is not None
    stream.stop()


def hands_over(stream: object) -> bool:
    """As Spark asks it."""
    return isinstance(stream, _SimpleStreamReaderWrapper)


def planned(stream: StreamReader) -> tuple[list[type], list[bytes]]:
    """The kinds of tasks that read all there is, and the values in them."""
    stream._ahead = Ahead(WAIT_S)
    start = stream.initialOffset()
    tasks = stream.partitions(start, stream.latestOffset(start, ReadAllAvailable()))
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
