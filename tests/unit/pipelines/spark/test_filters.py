"""What a WHERE tells of the places of records, and what Spark must still look at itself."""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from millstream.model.ids import TopicPartition
from millstream.pipelines.spark.filters import Bounds, Span
from millstream.pipelines.spark.options import Selection
from millstream.pipelines.spark.origin import Aborted, narrowed
from millstream.pipelines.spark.planning import Offsets, ranges

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
OFFSET, TIMESTAMP, PARTITION, TOPIC = ("offset",), ("timestamp",), ("partition",), ("topic",)


def moment(microseconds: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=UTC) + dt.timedelta(microseconds=microseconds)


@pytest.mark.parametrize(
    ("wanted", "span"),
    [
        (EqualTo(OFFSET, 5), Span(5, 6)),
        (EqualNullSafe(OFFSET, 5), Span(5, 6)),
        (GreaterThan(OFFSET, 5), Span(6, None)),
        (GreaterThanOrEqual(OFFSET, 5), Span(5, None)),
        (LessThan(OFFSET, 5), Span(None, 5)),
        (LessThanOrEqual(OFFSET, 5), Span(None, 6)),
    ],
)
def test_what_is_said_of_offsets_is_kept_to_the_letter(wanted: Filter, span: Span) -> None:
    bounds = Bounds()
    assert bounds.take([wanted, IsNotNull(OFFSET)]) == []
    assert bounds.offsets == span


@pytest.mark.parametrize(
    ("wanted", "span"),
    [
        (GreaterThan(TIMESTAMP, moment(5000)), Span(6, None)),
        (GreaterThan(TIMESTAMP, moment(5001)), Span(6, None)),
        (GreaterThanOrEqual(TIMESTAMP, moment(5000)), Span(5, None)),
        (GreaterThanOrEqual(TIMESTAMP, moment(5001)), Span(6, None)),
        (LessThan(TIMESTAMP, moment(5000)), Span(None, 5)),
        (LessThan(TIMESTAMP, moment(5001)), Span(None, 6)),
        (LessThanOrEqual(TIMESTAMP, moment(5000)), Span(None, 6)),
        (LessThanOrEqual(TIMESTAMP, moment(5001)), Span(None, 6)),
        (EqualTo(TIMESTAMP, moment(5000)), Span(5, 6)),
        (EqualTo(TIMESTAMP, moment(5001)), Span(6, 6)),
        (In(TIMESTAMP, (moment(9000), moment(5000))), Span(5, 10)),
    ],
)
def test_what_is_said_of_timestamps_bounds_milliseconds_and_is_looked_at_again(wanted: Filter, span: Span) -> None:
    bounds = Bounds()
    assert bounds.take([wanted]) == [wanted]
    assert bounds.timestamps_ms == span


def test_several_offsets_bound_what_is_read_and_are_looked_at_again() -> None:
    bounds, wanted = Bounds(), In(OFFSET, (9, 3))
    assert bounds.take([wanted, GreaterThan(OFFSET, 4)]) == [wanted]
    assert bounds.offsets == Span(5, 10)


@pytest.mark.parametrize(
    ("wanted", "first", "second"),
    [
        (EqualTo(PARTITION, 1), False, True),
        (Not(EqualTo(PARTITION, 1)), True, False),
        (In(PARTITION, (0, 7)), True, False),
        (Not(In(PARTITION, (0, 7))), False, True),
        (LessThan(PARTITION, 1), True, False),
        (EqualTo(TOPIC, "orders"), True, True),
        (EqualTo(TOPIC, "refunds"), False, False),
    ],
)
def test_partitions_and_topics_are_chosen_exactly(wanted: Filter, first: bool, second: bool) -> None:
    bounds = Bounds()
    assert bounds.take([wanted]) == []
    assert (bounds.wants(FIRST), bounds.wants(SECOND)) == (first, second)


@pytest.mark.parametrize(
    "wanted",
    [
        EqualTo(("value",), b"x"),
        EqualTo(("headers", "offset"), 5),
        Not(EqualTo(OFFSET, 5)),
        IsNull(OFFSET),
        IsNotNull(("key",)),
        EqualNullSafe(OFFSET, None),
        EqualTo(OFFSET, "5"),
        In(OFFSET, (1, None)),
        In(OFFSET, ()),
        StringStartsWith(TOPIC, "ord"),
        LessThan(TIMESTAMP, dt.datetime(2026, 1, 1)),
    ],
)
def test_whatever_else_is_left_to_spark(wanted: Filter) -> None:
    bounds = Bounds()
    assert bounds.take([wanted]) == [wanted]
    assert bounds == Bounds()


class Times:
    """An origin that knows its records' timestamps, and that is asked for nothing else."""

    def __init__(self, timestamps_ms: Mapping[TopicPartition, Sequence[int]]) -> None:
        self._timestamps_ms = timestamps_ms
        self.asked: list[TopicPartition] = []

    def by_time(self, timestamps_ms: Mapping[TopicPartition, int]) -> Offsets:
        self.asked += timestamps_ms
        found = {}
        for tp, moment_ms in timestamps_ms.items():
            young = [offset for offset, each in enumerate(self._timestamps_ms[tp]) if each >= moment_ms]
            if young:
                found[tp] = young[0]
        return found

    def partitions(self, selection: Selection, *, must_exist: bool) -> list[TopicPartition]:
        raise AssertionError

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        raise AssertionError

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        raise AssertionError

    def bounds(self, selection: Selection) -> tuple[Offsets, Offsets]:
        raise AssertionError

    def aborted(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Sequence[Aborted]]:
        raise AssertionError

    def rest(self) -> None:
        raise AssertionError

    def close(self) -> None:
        raise AssertionError


#: The third record of the first partition came late; the second partition is old.
ORIGIN = {FIRST: [10, 20, 5, 30, 40], SECOND: [1, 2]}
STARTS, STOPS = {FIRST: 0, SECOND: 0}, {FIRST: 5, SECOND: 2}


def narrow(bounds: Bounds, disorder_max_ms: int | None = None) -> dict[TopicPartition, tuple[int, int]]:
    starts, stops = narrowed(Times(ORIGIN), bounds, STARTS, STOPS, disorder_max_ms)
    return {tp: (start, stops[tp]) for tp, start in starts.items()}


def test_without_bounds_everything_is_read_and_no_time_is_asked_for() -> None:
    assert narrow(Bounds()) == {FIRST: (0, 5), SECOND: (0, 2)}


def test_offsets_leave_out_partitions_that_have_none_of_them() -> None:
    assert narrow(Bounds(offsets=Span(2, 4))) == {FIRST: (2, 4)}


def test_reading_starts_at_the_first_that_is_young_enough_and_not_at_all_where_none_is() -> None:
    assert narrow(Bounds(timestamps_ms=Span(15, None))) == {FIRST: (1, 5)}
    assert narrow(Bounds(offsets=Span(2, None), timestamps_ms=Span(15, None))) == {FIRST: (2, 5)}


def test_bounds_that_leave_nothing_give_no_range() -> None:
    """The first that is young enough lies behind the last offset that is wanted."""
    starts, stops = narrowed(Times(ORIGIN), Bounds(offsets=Span(None, 2), timestamps_ms=Span(30, None)), STARTS, STOPS)
    assert ranges(starts, stops) == []


def test_an_end_in_time_ends_reading_only_if_disorder_is_bounded() -> None:
    """A record of 5 comes after one of 20: stopping at the first that is not below 10 would miss it."""
    before = Bounds(timestamps_ms=Span(None, 10))
    assert narrow(before) == {FIRST: (0, 5), SECOND: (0, 2)}
    assert narrow(before, disorder_max_ms=15) == {FIRST: (0, 3), SECOND: (0, 2)}


def test_times_before_1970_are_never_asked_for_as_they_mean_other_things_on_the_wire() -> None:
    origin = Times(ORIGIN)
    assert narrowed(origin, Bounds(timestamps_ms=Span(-2, -1)), STARTS, STOPS, 0) == (STARTS, STOPS)
    assert origin.asked == []
