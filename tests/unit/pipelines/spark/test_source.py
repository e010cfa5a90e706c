"""How far each micro-batch goes, on real log files and a clock that the test moves."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows

from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.model.records import Record, encode_batch
from millstream.pipelines.spark.options import Selection, stream_options
from millstream.pipelines.spark.planning import PACK_RECORDS, DataLost, Offsets
from millstream.pipelines.spark.segments import DirectoryOrigin
from millstream.pipelines.spark.source import StreamReader, read_task
from millstream.pipelines.spark.task import Pack, Task


class Hand:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic_s(self) -> float:
        return self.now_s


class Log:
    """A topic's partitions, as files."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ends: dict[int, int] = {}

    def put(self, count: int, partition: int = 0) -> None:
        end = self._ends.setdefault(partition, 0)
        file = self.path / f"orders-{partition}" / f"{0:020d}.log"
        file.parent.mkdir(exist_ok=True)
        with file.open("ab") as log:
            log.write(encode_batch([Record(value=b"v")] * count, base_offset=end))
        self._ends[partition] = end + count


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = Log(tmp_path)
    log.put(10)
    return log


def reader(log: Log, clock: Hand | None = None, /, **options: str) -> StreamReader:
    given = {"path": str(log.path), "subscribe": "orders", "startingOffsets": "earliest", **options}
    return StreamReader(stream_options(given), clock or Hand())


def at(offset: int) -> dict[str, dict[str, int]]:
    return {"orders": {"0": offset}}


def ask(stream: StreamReader, start: int) -> object:
    return stream.latestOffset(at(start), stream.getDefaultReadLimit())


@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, ReadAllAvailable()),
        ({"maxOffsetsPerTrigger": "5"}, ReadMaxRows(5)),
        ({"minOffsetsPerTrigger": "3"}, ReadMinRows(3)),
        ({"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "3"}, ReadMaxRows(5)),
    ],
)
def test_spark_is_told_which_limit_holds(log: Log, options: dict[str, str], limit: ReadLimit) -> None:
    assert reader(log, **options).getDefaultReadLimit() == limit


def test_a_stream_goes_from_its_start_to_what_there_is(log: Log) -> None:
    stream = reader(log)
    assert stream.initialOffset() == at(0)
    assert ask(stream, 0) == at(10)
    log.put(2)
    assert ask(stream, 10) == at(12)
    assert stream.reportLatestOffset() == at(12)


def test_a_stream_from_the_latest_has_its_start_written_down_before_it_reads(log: Log) -> None:
    stream = reader(log, startingOffsets="latest")
    assert stream.initialOffset() == at(10)
    log.put(2)
    assert ask(stream, 10) == at(10), "the first micro-batch is empty"
    assert stream.initialOffset() == at(10), "Spark asks again when it runs"
    assert stream.partitions(at(10), at(10)) == []
    assert ask(stream, 10) == at(12)


def test_a_first_micro_batch_that_is_repeated_is_as_empty_though_the_latest_has_moved(log: Log) -> None:
    log.put(3)
    again = reader(log, startingOffsets="latest")
    assert again.initialOffset() == at(13)
    assert again.partitions(at(13), at(10)) == []
    assert ask(again, 10) == at(13)


def test_a_repeated_first_micro_batch_holds_nothing_up_where_nothing_has_come(log: Log) -> None:
    again = reader(log, startingOffsets="latest")
    assert again.initialOffset() == at(10)
    assert again.partitions(at(10), at(10)) == []
    assert ask(again, 10) == at(10)
    log.put(1)
    assert ask(again, 10) == at(11)


def test_partitions_that_were_planned_for_and_are_gone_are_left_out_where_loss_is_taken(log: Log) -> None:
    stream = reader(log, failOnDataLoss="false")
    (task,) = stream.partitions(at(4), at(10) | {"gone": {"0": 3}})
    assert isinstance(task, Task) and task.range.partition == TopicPartition("orders", 0)
    with pytest.raises(DataLost, match="partition gone-0 is gone"):
        reader(log).partitions(at(4), at(10) | {"gone": {"0": 3}})


def test_a_limit_holds_unless_all_is_asked_for(log: Log) -> None:
    stream = reader(log, maxOffsetsPerTrigger="4")
    assert ask(stream, 0) == at(4)
    assert stream.latestOffset(at(4), ReadAllAvailable()) == at(10)


def test_a_micro_batch_waits_for_enough_or_for_its_time(log: Log) -> None:
    clock = Hand()
    stream = reader(log, clock, minOffsetsPerTrigger="5", maxTriggerDelay="10s")
    assert ask(stream, 8) == at(10), "the first does not wait"
    log.put(4)
    assert ask(stream, 10) == at(10)
    log.put(1)
    assert ask(stream, 10) == at(15), "five are there"
    log.put(1)
    clock.now_s += 9.9
    assert ask(stream, 15) == at(15)
    clock.now_s += 0.1
    assert ask(stream, 15) == at(16), "its time has come"


def test_an_available_now_run_ends_where_the_topic_did_when_it_began(log: Log) -> None:
    stream = reader(log, maxOffsetsPerTrigger="6", minOffsetsPerTrigger="6")
    stream.prepareForTriggerAvailableNow()
    log.put(100)
    assert [ask(stream, 0), ask(stream, 6), ask(stream, 10)] == [at(6), at(10), at(10)]


def test_a_partition_that_came_later_is_read_from_its_first_record(log: Log) -> None:
    log.put(3, partition=1)
    stream = reader(log)
    end = ask(stream, 10)
    assert end == {"orders": {"0": 10, "1": 3}}
    (task,) = stream.partitions(at(10), {"orders": {"0": 10, "1": 3}})
    assert isinstance(task, Task)
    assert (str(task.range.partition), task.range.start, task.range.stop) == ("orders-1", 0, 3)
    assert [table["offset"].to_pylist() for table in stream.read(task)] == [[0, 1, 2]]


def test_a_micro_batch_of_few_records_is_one_task_unless_more_are_asked_for(log: Log) -> None:
    log.put(5, partition=1)
    log.put(PACK_RECORDS, partition=2)
    start, end = {"orders": dict.fromkeys("012", 2)}, {"orders": {"0": 10, "1": 5, "2": PACK_RECORDS}}
    stream = reader(log)
    pack, alone = stream.partitions(start, end)
    assert isinstance(pack, Pack) and isinstance(alone, Task)
    assert [table["offset"].to_pylist() for table in stream.read(pack)] == [list(range(2, 10)), [2, 3, 4]]
    assert len(reader(log, minPartitions="3").partitions(start, end)) == 3
    assert len(reader(log, maxRecordsPerPartition="100000").partitions(start, end)) == 3


def test_a_topic_that_was_made_anew_is_lost_data_or_read_from_its_start(log: Log) -> None:
    with pytest.raises(DataLost, match="orders-0 ends at offset 10"):
        ask(reader(log), 25)
    stream = reader(log, failOnDataLoss="false")
    assert ask(stream, 25) == at(10)
    (task,) = stream.partitions(at(25), at(10))
    assert isinstance(task, Task)
    assert (task.range.start, task.range.stop) == (0, 10)


class Flickering(DirectoryOrigin):
    """A directory that is not seen at first: as by a broker that has just started."""

    def __init__(self, log: Log, looks: int) -> None:
        super().__init__(stream_options({"path": str(log.path), "subscribe": "orders"}))
        self.looks_in_vain = looks

    def partitions(self, selection: Selection, *, must_exist: bool) -> list[TopicPartition]:
        return [] if self.looks_in_vain else super().partitions(selection, must_exist=must_exist)

    def rest(self) -> None:
        self.looks_in_vain -= 1


@pytest.mark.parametrize("fails", ["true", "false"])
@pytest.mark.parametrize("is_available_now", [False, True])
def test_a_topic_that_is_not_seen_for_a_moment_is_not_taken_for_gone(
    log: Log, fails: str, is_available_now: bool
) -> None:
    """Taken for gone, it would fail the query, or be read again from its first record once it is back."""
    stream = reader(log, failOnDataLoss=fails)
    stream._origin = Flickering(log, 2)
    if is_available_now:
        stream.prepareForTriggerAvailableNow()
    assert ask(stream, 7) == at(10)


def test_a_topic_that_stays_away_is_lost_data(log: Log) -> None:
    stream = reader(log)
    stream._origin = Flickering(log, 5)
    with pytest.raises(DataLost, match="orders-0 is gone"):
        ask(stream, 7)


class Vanishing(DirectoryOrigin):
    """A directory of which one topic is deleted after it was seen, before its offsets are asked for."""

    def __init__(self, log: Log, deleted: TopicPartition) -> None:
        super().__init__(stream_options({"path": str(log.path), "subscribe": "orders"}))
        self._deleted = deleted
        self._is_seen = True

    def partitions(self, selection: Selection, *, must_exist: bool) -> list[TopicPartition]:
        found = super().partitions(selection, must_exist=must_exist)
        return [*found, self._deleted] if self._is_seen else found

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return super().earliest(self._there(partitions))

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return super().latest(self._there(partitions))

    def _there(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        asked = list(partitions)
        if self._deleted in asked:
            self._is_seen = False
            raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no topic 'gone'")
        return asked


@pytest.mark.parametrize("is_available_now", [False, True])
def test_a_topic_deleted_between_two_questions_is_gone_like_any_other(log: Log, is_available_now: bool) -> None:
    gone = TopicPartition("gone", 0)
    for fails in ("true", "false"):
        stream = reader(log, failOnDataLoss=fails)
        stream._origin = Vanishing(log, gone)
        if is_available_now:
            stream.prepareForTriggerAvailableNow()
        start = at(7) | {"gone": {"0": 1}}
        if fails == "true":
            with pytest.raises(DataLost, match="gone-0 is gone"):
                stream.latestOffset(start, stream.getDefaultReadLimit())
        else:
            assert stream.latestOffset(start, stream.getDefaultReadLimit()) == at(10)


def test_a_topic_deleted_while_its_micro_batch_is_planned_is_left_out_where_loss_is_taken(log: Log) -> None:
    stream = reader(log, failOnDataLoss="false")
    stream._origin = Vanishing(log, TopicPartition("gone", 0))
    (task,) = stream.partitions(at(4), at(10) | {"gone": {"0": 3}})
    assert isinstance(task, Task) and task.range.partition == TopicPartition("orders", 0)


def test_what_a_new_partition_lost_before_a_replay_is_told(log: Log) -> None:
    """The batch was planned when the partition had its first record, and is run again when it has not."""
    log.put(5, partition=1)
    (log.path / "log-start-offset-checkpoint").write_text("0\n1\norders 1 3\n")
    end = {"orders": {"0": 10, "1": 5}}
    with pytest.raises(DataLost, match="orders-1 is new and starts at offset 3, not 0"):
        reader(log).partitions(at(10), end)
    (task,) = reader(log, failOnDataLoss="false").partitions(at(10), end)
    assert isinstance(task, Task)
    assert (task.range.start, task.range.stop) == (3, 5)


def test_the_empty_task_that_spark_makes_is_empty() -> None:
    assert list(read_task(InputPartition(None))) == []
