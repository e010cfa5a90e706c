"""How far a micro-batch goes: what is there, no more than fits, and nothing for heartbeats alone."""

from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from millstream.client.cluster import Partition, Topic
from millstream.client.wire import Unreachable
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import ZERO_UUID, TopicPartition
from millstream.pipelines.mirror.definition import Mirror
from millstream.pipelines.mirror.passing import FIRST
from millstream.pipelines.mirror.source import ABSENT_S_MAX, HEARTBEATS_EVERY_S, MirrorReader, Stretches, begins, led
from millstream.pipelines.mirror.topic_names import full_name, id_text, name_of
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
        self._listed = {"orders": "orders", "heartbeats": "heartbeats"}

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


def test_what_cannot_be_read_now_keeps_its_place_and_so_does_a_topic_that_nobody_knows_for_a_while() -> None:
    """A broker that has just started may not know yet what there is: all of it would be mirrored once more."""
    reader = Reader()
    start = {"gone": {"0": 5}, "heartbeats": {"0": 7}, "orders": {"0": 10}}
    reader.ends = {ORDERS: 12}
    assert reader.next(start) == {**start, "orders": {"0": 12}}
    reader.clock.now_s += ABSENT_S_MAX
    assert reader.next(start) == {"heartbeats": {"0": 7}, "orders": {"0": 12}}


def test_a_topic_that_nobody_knew_and_that_is_there_again_may_be_missed_as_long_once_more() -> None:
    reader = Reader()
    start = {"orders": {"0": 10}}
    del reader._listed["orders"]
    assert reader.next(start) == start
    reader.clock.now_s += ABSENT_S_MAX
    reader._listed["orders"] = "orders"
    assert reader.next(start) == start
    del reader._listed["orders"]
    assert reader.next(start) == start


def test_a_topic_that_was_made_again_is_read_from_its_beginning_however_much_it_has() -> None:
    reader = Reader()
    reader._listed = {"orders": "orders:02"}
    reader.ends = {TopicPartition("orders:02", 0): 12}
    end = reader.next({"orders:01": {"0": 10}})
    assert end == {"orders:02": {"0": 12}}
    [task] = reader.partitions({"orders:01": {"0": 10}}, end)
    assert isinstance(task, Stretches)
    assert task.stretches == [("orders", 0, FIRST, 12, "A.orders", "02")]


@pytest.mark.parametrize(("before", "now"), [("orders", "orders:01"), ("orders:01", "orders")])
def test_a_cluster_that_begins_or_ceases_to_give_ids_has_the_same_topics(before: str, now: str) -> None:
    reader = Reader()
    reader._listed = {"orders": now}
    reader.ends = {TopicPartition(now, 0): 10}
    start = {before: {"0": 10, "1": 7}}  # One of them cannot be read just now.
    assert reader.next(start) == start
    reader.ends = {TopicPartition(now, 0): 12}
    [task] = reader.partitions(start, reader.next(start))
    assert isinstance(task, Stretches)
    assert task.stretches == [("orders", 0, 10, 12, "A.orders", id_text(now))]


def test_a_log_that_was_cut_goes_on_at_its_end_and_one_that_may_be_another_at_its_beginning() -> None:
    known, unknown = TopicPartition("orders:01", 0), TopicPartition("orders", 0)
    for tp, begin in ((known, 90), (unknown, 5)):
        assert begins({tp: 100}, {tp: 5}, {tp: 90}) == {tp: begin}
        assert begins({tp: 3}, {tp: 5}, {tp: 90}) == {tp: 5}
        assert begins({}, {tp: 5}, {tp: 90}) == {tp: 5}
    reader = Reader()
    [cut] = reader.partitions({"orders:01": {"0": 100}}, {"orders:01": {"0": 90}})
    [anew] = reader.partitions({"orders": {"0": 100}}, {"orders": {"0": 90}})
    assert isinstance(cut, Stretches) and isinstance(anew, Stretches)
    assert [each[2:4] for each in (*cut.stretches, *anew.stretches)] == [(100, 90), (FIRST, 90)]


def test_partitions_without_a_leader_hold_up_no_others() -> None:
    parts = [Partition(index, leader, 0, [1], [1], []) for index, leader in enumerate((1, -1, 2))]
    assert led(Topic("orders", partitions=parts)) == {0, 2}
    assert led(None) == set()


def test_names_have_ids_where_there_are_any() -> None:
    full = full_name(Topic("orders", id=bytes(15) + b"\1"))
    assert (name_of(full), id_text(full)) == ("orders", "0" * 31 + "1")
    assert (full_name(Topic("orders", id=ZERO_UUID)), id_text("orders")) == ("orders", "")


@pytest.mark.parametrize("fault", [Unreachable("nobody"), ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)])
def test_while_nobody_answers_there_is_nothing_and_after_a_while_that_is_told(
    monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    reader = Reader("request.timeout.ms=20000\n")
    start, latest = {"orders": {"0": 10}}, reader._latest

    def away() -> Offsets:
        raise fault

    for _ in range(2):  # Whoever has answered meanwhile may be away again as long.
        monkeypatch.setattr(reader, "_latest", away)
        assert reader.next(start) == start
        reader.clock.now_s += 19.0
        assert reader.next(start) == start
        monkeypatch.setattr(reader, "_latest", latest)
        reader.next(start)
    monkeypatch.setattr(reader, "_latest", away)
    reader.next(start)
    reader.clock.now_s += 20.0
    with pytest.raises(type(fault)):
        reader.next(start)


def test_stretches_begin_where_the_last_ended_and_new_partitions_at_their_first_record() -> None:
    reader = Reader("tasks.max=1\n")
    [task] = reader.partitions({"orders": {"0": 10}}, {"heartbeats": {"0": 9, "1": 0}, "orders": {"0": 12}})
    assert isinstance(task, Stretches)
    assert sorted(task.stretches) == [
        ("heartbeats", 0, FIRST, 9, "A.heartbeats", ""),
        ("orders", 0, 10, 12, "A.orders", ""),
    ]
    [rows] = reader.read(task)
    assert sorted(row["remote"] for row in rows.to_pylist()) == ["A.heartbeats", "A.orders"]


def test_what_was_planned_of_a_topic_that_is_no_longer_wanted_is_left_out() -> None:
    """So that one that cannot be passed on may be excluded, and the others go on."""
    reader = Reader("topics.exclude=orders\n")
    assert reader.partitions({"orders": {"0": 10}}, {"orders": {"0": 12}}) == []
