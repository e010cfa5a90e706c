"""What a query's WHERE says about where its records lie: filters in, bounds out. No I/O.

A topic, a partition and an offset are places, and what is said of them is kept to the letter. A timestamp is not: only
records before the first that is young enough are surely too old, so Spark looks at the rest of them itself.
"""

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from millstream.model.ids import TopicPartition

#: Columns that no record is without.
_NEVER_NULL = ("topic", "partition", "offset", "timestamp", "timestampType")
#: What the columns that tell of places are compared with.
_KINDS: dict[str, type] = {"topic": str, "partition": int, "offset": int, "timestamp": datetime}
_COMPARISONS: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq,
    EqualNullSafe: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    In: lambda found, values: found in values,
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


@dataclass
class Span:
    """Whole numbers from ``least`` on and below ``beyond``; None where there is no such bound."""

    least: int | None = None
    beyond: int | None = None

    def narrow(self, least: int | None, beyond: int | None) -> None:
        if least is not None:
            self.least = least if self.least is None else max(self.least, least)
        if beyond is not None:
            self.beyond = beyond if self.beyond is None else min(self.beyond, beyond)


@dataclass
class Bounds:
    """Where the records are that a query wants."""

    offsets: Span = field(default_factory=Span)
    timestamps_ms: Span = field(default_factory=Span)
    _of_partitions: list[Filter] = field(default_factory=list)

    def take(self, filters: Iterable[Filter]) -> list[Filter]:
        """Heed these filters; those that must still be looked at for every record come back."""
        return [each for each in filters if not self._is_settled(each)]

    def wants(self, tp: TopicPartition) -> bool:
        """Whether the partition may hold what is wanted."""
        return all(_holds(wanted, tp) for wanted in self._of_partitions)

    def _is_settled(self, wanted: Filter) -> bool:
        """Narrow the bounds by a filter; whether they say all that it says."""
        column = _column(_plain(wanted))
        if isinstance(wanted, IsNotNull):
            return column in _NEVER_NULL
        if column not in _KINDS or not _is_comparable(_plain(wanted), _KINDS[column]):
            return False
        if column in TopicPartition._fields:
            self._of_partitions.append(wanted)
            return True
        if isinstance(wanted, Not):
            return False
        if column == "timestamp":
            self.timestamps_ms.narrow(*_span(wanted, _floor_ms, _ceiling_ms))
            return False
        self.offsets.narrow(*_span(wanted, int, int))
        return not isinstance(wanted, In)


def _plain(wanted: Filter) -> Filter:
    return wanted.child if isinstance(wanted, Not) else wanted


def _column(wanted: Filter) -> str:
    path: tuple[str, ...] = getattr(wanted, "attribute", ())
    return path[0] if len(path) == 1 else ""


def _values(wanted: Filter) -> list[Any]:
    given = getattr(wanted, "value", None)
    return list(given) if isinstance(wanted, In) and given is not None else [given]


def _is_comparable(wanted: Filter, kind: type) -> bool:
    """Whether this is a comparison with values of that kind; a time without a zone is no moment."""
    values = _values(wanted)
    return (
        type(wanted) in _COMPARISONS
        and bool(values)
        and all(isinstance(value, kind) and getattr(value, "tzinfo", UTC) is not None for value in values)
    )


def _holds(wanted: Filter, tp: TopicPartition) -> bool:
    inner = _plain(wanted)
    found = _COMPARISONS[type(inner)](getattr(tp, _column(inner)), getattr(inner, "value", None))
    return found is not isinstance(wanted, Not)


def _span(wanted: Filter, floor: Callable[[Any], int], ceiling: Callable[[Any], int]) -> tuple[int | None, int | None]:
    """The whole numbers that a comparison leaves, from the first on and below the second."""
    values = _values(wanted)
    least, most = min(values), max(values)
    if isinstance(wanted, GreaterThan):
        return floor(least) + 1, None
    if isinstance(wanted, GreaterThanOrEqual):
        return ceiling(least), None
    if isinstance(wanted, LessThan):
        return None, ceiling(most)
    if isinstance(wanted, LessThanOrEqual):
        return None, floor(most) + 1
    return ceiling(least), floor(most) + 1


def _floor_ms(moment: datetime) -> int:
    return (moment - _EPOCH) // _MILLISECOND


def _ceiling_ms(moment: datetime) -> int:
    return -((_EPOCH - moment) // _MILLISECOND)
