"""How far a micro-batch goes: what is there, no more than fits, and nothing for heartbeats alone."""

from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from millstream.client.wire import Unreachable
from millstream.model.ids import TopicPartition
from millstream.pipelines.mirror.definition import Mirror
from millstream.pipelines.mirror.source import HEARTBEATS_EVERY_S, MirrorReader, Stretches
from millstream.pipelines.spark.planning import Offsets

ORDERS, BEATS = TopicPartition("orders", 0), TopicPartition("heartbeats", 0)


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic_s(self) -> float:
        return self.now_s

    def now_ms(self) -> int:
        return 0


class Reader(MirrorReader):
    """A reader of a source that is told, not asked."""

    def __init__(self, more: str = "") -> None:
        text = "clusters=A,B\nA.bootstrap.servers=h:1\nB.bootstrap.servers=h:2\nA->B.enabled=true\n"
        self.clock = Clock()
        super().__init__(Mirror(text + more, "f").flows[0], self.clock)
        self.ends: Offsets = {}
        self.starts: Offsets = {}
        self.sizes: dict[TopicPartition, float] = {}
        self._alive = {"orders", "heartbeats"}

    def _latest(self) -> Offsets:
        return dict(self.ends)

    def _earliest(self, partitions: Any) -> Offsets:
        return {tp: self.starts.get(tp, 0) for tp in partitions}

    def _record_sizes(self, latest: Offsets) -> dict[TopicPartition, float]:
        return self.sizes

    def next(self, start: dict[str, Any]) -> dict[str, Any]:
        return self.latestOffset(start, ReadAllAvailable())


def test_a_micro_batch_takes_what_is_there() -> None:
    reader = Reader()
    reader.ends = {ORDERS: 10}
    assert reader.next({}) == {"orders": {"0": 10}}
    assert reader.next({"orders": {"0": 10}}) == {"orders": {"0": 10}}


def test_no_more_than_fits_by_the_size_of_the_records() -> None:
    reader = Reader("mirror.batch.bytes=1000000\n")
    reader.ends, reader.sizes = {ORDERS: 100_000}, {ORDERS: 100.0}
    assert reader.next({"orders": {"0": 50_000}}) == {"orders": {"0": 60_000}}


def test_heartbeats_alone_wait_and_go_along_with_anything_else() -> None:
    reader = Reader()
    reader.ends = {ORDERS: 10, BEATS: 1}
    first = reader.next({})
    reader.ends = {ORDERS: 10, BEATS: 2}
    assert reader.next(first) == first
    reader.ends = {ORDERS: 11, BEATS: 3}
    second = reader.next(first)
    assert second == {"heartbeats": {"0": 3}, "orders": {"0": 11}}
    reader.ends = {ORDERS: 11, BEATS: 4}
    reader.clock.now_s += HEARTBEATS_EVERY_S
    assert reader.next(second)["heartbeats"] == {"0": 4}


def test_a_partition_that_cannot_be_read_now_keeps_its_place_and_one_that_is_gone_does_not() -> None:
    reader = Reader()
    start = {"gone": {"0": 5}, "heartbeats": {"0": 7}, "orders": {"0": 10}}
    reader.ends = {ORDERS: 12}
    assert reader.next(start) == {"heartbeats": {"0": 7}, "orders": {"0": 12}}


def test_while_nobody_answers_there_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader()

    def away() -> Offsets:
        raise Unreachable("nobody")

    monkeypatch.setattr(reader, "_latest", away)
    assert reader.next({"orders": {"0": 10}}) == {"orders": {"0": 10}}


def test_stretches_begin_where_the_last_ended_and_new_partitions_at_their_first_record() -> None:
    reader = Reader("tasks.max=1\n")
    reader.starts = {BEATS: 3}
    [task] = reader.partitions({"orders": {"0": 10}}, {"heartbeats": {"0": 9}, "orders": {"0": 12}})
    assert isinstance(task, Stretches)
    assert sorted(task.stretches) == [("heartbeats", 0, 3, 9, "A.heartbeats"), ("orders", 0, 10, 12, "A.orders")]
    [rows] = reader.read(task)
    assert sorted(row["remote"] for row in rows.to_pylist()) == ["A.heartbeats", "A.orders"]
