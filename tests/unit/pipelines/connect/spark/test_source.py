"""A source as Spark plans and reads it, without Spark."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from millstream.pipelines.connect.base import Offset, Partition, Source
from millstream.pipelines.connect.errors import Misconfigured
from millstream.pipelines.connect.job import Job
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.spark.gate import Gate
from millstream.pipelines.connect.spark.source import Reader, Task
from tests.simulation.loop import ManualClock

ALL = ReadAllAvailable()


class Numbers(Source):
    """Numbers below what ``ends`` says, in as many partitions as it names."""

    ends: ClassVar[dict[str, int]] = {}
    committed_ones: ClassVar[list[tuple[str, int]]] = []
    asked: ClassVar[int] = 0

    def partitions(self) -> Sequence[Partition]:
        Numbers.asked += 1
        return [{"name": name} for name in self.ends]

    def latest(self, partition: Partition, start: Offset | None, limit: int) -> Offset | None:
        done = start["n"] if start else 0
        end = min(self.ends[partition["name"]], done + limit)
        return {"n": end} if end > done else start

    def read(self, partition: Partition, start: Offset | None, end: Offset) -> Iterable[Record]:
        for number in range(start["n"] if start else 0, end["n"]):
            yield Record("numbers", f"{partition['name']}{number}", timestamp_ms=number)

    def committed(self, partition: Partition, end: Offset) -> None:
        self.committed_ones.append((partition["name"], end["n"]))


@pytest.fixture(autouse=True)
def nothing_yet() -> None:
    Numbers.ends, Numbers.committed_ones, Numbers.asked = {}, [], 0


def _job(folder: Path, offsets: Any = None, **given: str) -> Job:
    config = {
        "name": "c",
        "connector.class": f"{__name__}.Numbers",
        "tasks.max": "2",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        **given,
    }
    job = Job("nowhere:1", config, str(folder), 0, offsets, "offsets")
    Path(job.folder).mkdir(parents=True)
    return job


def _document(**ends: int) -> dict[str, Any]:
    return {json.dumps({"name": name}, separators=(",", ":")): {"n": end} for name, end in ends.items()}


def _read(reader: Reader, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[list[tuple[str, str, int | None]]]:
    """By task: topic, value and time of each row."""
    found = []
    for task in reader.partitions(dict(start), dict(end)):
        rows = [row for batch in reader.read(task) for row in batch.to_pylist()]
        found.append([(row["topic"], row["value"].decode(), row["timestamp_ms"]) for row in rows])
    return found


def test_partitions_are_shared_out_among_tasks_and_offsets_go_with_their_records(tmp_path: Path) -> None:
    Numbers.ends = {"a": 2, "b": 0, "c": 1, "d": 1}
    reader = Reader(_job(tmp_path))
    end = reader.latestOffset({}, ALL)
    assert end == _document(a=2, c=1, d=1)
    first, second = _read(reader, {}, end)
    assert first == [
        ("numbers", "a0", 0),
        ("numbers", "a1", 1),
        ("offsets", '{"n":2}', None),
        ("numbers", "d0", 0),
        ("offsets", '{"n":1}', None),
    ]
    assert second == [("numbers", "c0", 0), ("offsets", '{"n":1}', None)]
    Numbers.ends["a"] = 3
    assert _read(reader, end, reader.latestOffset(end, ALL)) == [[("numbers", "a2", 2), ("offsets", '{"n":3}', None)]]


def test_a_new_generation_begins_where_it_is_told(tmp_path: Path) -> None:
    places = [{"partition": {"name": "a"}, "offset": {"n": 5}}, {"partition": {"name": "b"}, "offset": None}]
    assert Reader(_job(tmp_path, places)).initialOffset() == _document(a=5)


def test_a_batch_takes_no_more_than_the_limit(tmp_path: Path) -> None:
    Numbers.ends = {"a": 10}
    assert Reader(_job(tmp_path, **{"batch.max.rows": "4"})).latestOffset({}, ALL) == _document(a=4)
    with pytest.raises(Misconfigured, match=r"batch\.max\.rows=many"):
        Reader(Job("nowhere:1", {"name": "c", "batch.max.rows": "many"}, str(tmp_path)))


def test_what_is_committed_is_told_once(tmp_path: Path) -> None:
    Numbers.ends = {"a": 1}
    clock = ManualClock()
    reader = Reader(_job(tmp_path), clock)
    reader.latestOffset({}, ALL)
    assert Numbers.committed_ones == []
    for _ in range(3):
        clock.advance(1000)
        reader.latestOffset(_document(a=1), ALL)
    assert Numbers.committed_ones == [("a", 1)]


def test_one_that_had_nothing_new_is_not_asked_again_at_once(tmp_path: Path) -> None:
    Numbers.ends = {"a": 1}
    clock = ManualClock()
    reader = Reader(_job(tmp_path, **{"poll.interval.ms": "200"}), clock)
    end = reader.latestOffset({}, ALL)
    assert reader.latestOffset(end, ALL) == end
    Numbers.ends["a"] = 2
    clock.advance(100)
    assert reader.latestOffset(end, ALL) == end
    assert Numbers.asked == 2
    clock.advance(100)
    assert reader.latestOffset(end, ALL) == _document(a=2)


def test_nothing_is_planned_once_the_gate_closes_and_that_is_told(tmp_path: Path) -> None:
    Numbers.ends = {"a": 1}
    job = _job(tmp_path)
    reader, gate = Reader(job), Gate(job.folder)
    gate.close()
    assert not gate.is_closed()
    assert reader.latestOffset({}, ALL) == {}
    assert gate.is_closed()
    gate.open()
    assert not gate.is_closed()
    assert reader.latestOffset({}, ALL) == _document(a=1)


def test_an_empty_task_of_spark_has_no_rows(tmp_path: Path) -> None:
    reader = Reader(_job(tmp_path))
    assert reader.partitions({}, {}) == []
    assert list(reader.read(Task(0, []))) == []
