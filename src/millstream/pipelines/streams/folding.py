"""What runs on the workers to aggregate by Python functions, and to find the rows of sliding windows."""

import copy
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessorHandle,
    TimerValues,
)
from pyspark.sql.types import LongType, StructField, StructType

from millstream.pipelines.streams.keyed import AT, Keyed, State, fields_of, made
from millstream.pipelines.streams.shapes import Shape
from millstream.pipelines.streams.stream import TIME

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Before all times there are.
_EVER = -(2**63)


def from_micros(micros: int) -> datetime:
    """The moment, exactly."""
    return _EPOCH + timedelta(microseconds=micros)


def _end_ms(moment: datetime) -> int:
    return (moment.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)


class Fold(Keyed):
    """One value for each group, and for each window: a row for each batch that changes it, or one when it is final."""

    def __init__(
        self,
        columns: tuple[str, ...],
        initial: dict[str, Any],
        fold: Callable[[dict[str, Any], Row], Mapping[str, Any]],
    ) -> None:
        self._columns, self._initial, self._fold = columns, initial, fold
        self._kept = StructType([])
        self._output: list[str] = []
        self._final = False

    def keeping(self, kept: StructType) -> "Fold":
        """The same, with a value of these fields."""
        other = copy.copy(self)
        other._kept = kept
        return other

    def giving(self, output: list[str]) -> "Fold":
        """The same, with rows of these columns."""
        other = copy.copy(self)
        other._output = output
        return other

    def only_final(self) -> "Fold":
        """The same, silent until a window is closed."""
        other = copy.copy(self)
        other._final = True
        return other

    def init(self, handle: StatefulProcessorHandle) -> None:
        """The value so far, and the newest time in it."""
        self._handle = handle
        newest = StructField("_newest", LongType())
        self._value = State(handle, "value", StructType([*self._kept.fields, newest]))

    def take(self, key: Any, rows: list[Row], timerValues: TimerValues) -> Iterator[Row]:
        """Fold the rows in, in order of time."""
        value = self._value.get()
        if value is None and self._windowed(key):
            self._handle.registerTimer(_end_ms(key[0]["end"]))
        newest = value.pop("_newest") if value else 0
        so_far = value if value is not None else dict(self._initial)
        for row in sorted(rows, key=lambda row: int(row[AT])):
            so_far = dict(self._fold(so_far, row))
            newest = max(newest, row[AT])
        wrong = set(so_far) ^ set(self._kept.names)
        if wrong:
            raise ValueError(f"aggregate: the function's result and the schema differ in {', '.join(sorted(wrong))}")
        self._value.set({**so_far, "_newest": newest})
        if not self._final:
            yield self._row(key, so_far, newest)

    def handleExpiredTimer(
        self,
        key: Any,
        timerValues: TimerValues,
        expiredTimerInfo: ExpiredTimerInfo,
    ) -> Iterator[Row]:
        """The window is closed."""
        value = self._value.get()
        self._value.clear()
        if self._final and value is not None:
            newest = value.pop("_newest")
            yield self._row(key, value, newest)

    def _windowed(self, key: Any) -> bool:
        return len(key) > len(self._columns)

    def _row(self, key: Any, value: dict[str, Any], newest: int) -> Row:
        group = key[1:] if self._windowed(key) else key
        fields = {**dict(zip(self._columns, group, strict=True)), **value, TIME: from_micros(newest)}
        if self._windowed(key):
            # As Spark's window_time: the last moment that is still in the window.
            end = key[0]["end"].astimezone(UTC)
            fields |= {"window": key[0], TIME: end - timedelta(microseconds=1)}
        return made(self._output, fields)


class Slide(Keyed):
    """For each row, once no earlier one can come, the rows of its group from its window's start up to it."""

    def __init__(self, columns: tuple[str, ...], output: list[str], kept: StructType) -> None:
        self._columns, self._output, self._kept = columns, output, kept

    def init(self, handle: StatefulProcessorHandle) -> None:
        """The rows by their time and number."""
        self._handle = handle
        place = StructType([StructField("at", LongType()), StructField("number", LongType())])
        self._rows = handle.getMapState("rows", place, self._kept)

    def take(self, key: Any, rows: list[Row], timerValues: TimerValues) -> Iterator[Row]:
        """Keep the rows, and be called when each one's window is closed."""
        for row in rows:
            number = 0
            while self._rows.containsKey((row[AT], number)):
                number += 1
            self._rows.updateValue((row[AT], number), tuple(row[name] for name in self._kept.names))
            self._handle.registerTimer(_timer_ms(row[AT]))
        return iter(())

    def handleExpiredTimer(
        self,
        key: Any,
        timerValues: TimerValues,
        expiredTimerInfo: ExpiredTimerInfo,
    ) -> Iterator[Row]:
        """The windows that end in this millisecond; what no window to come can hold is forgotten."""
        shape = Shape(self._kept)
        kept = {tuple(place): shape.fields(fields) for place, fields in self._rows.iterator()}
        at_ms = expiredTimerInfo.getExpiryTimeInMs()
        ends = {at: fields["_from"] for (at, _), fields in kept.items() if _timer_ms(at) == at_ms}
        group = dict(zip(self._columns, key, strict=True))
        for end in sorted(ends):
            for (at, _), fields in sorted(kept.items(), key=lambda entry: entry[0]):
                if ends[end] <= at <= end:
                    yield made(self._output, {**group, **fields, TIME: from_micros(end)})
        oldest = min(ends.values(), default=_EVER)
        for (at, number), fields in list(kept.items()):
            if at < oldest or _over_ms(at, fields["_from"]) <= at_ms:
                self._rows.removeKey((at, number))
                del kept[at, number]
        if kept and _timer_ms(max(kept)[0]) <= at_ms:
            # Should no row of this group come any more, nobody else would let these go.
            self._handle.registerTimer(max(_over_ms(at, fields["_from"]) for (at, _), fields in kept.items()))


def _over_ms(at: int, start: int) -> int:
    """When no row that is not too late can look back as far as this; twice a window, for months are not all as long."""
    return _timer_ms(at + 2 * (at - start))


def _timer_ms(micros: int) -> int:
    return -(-micros // 1000)


def slide_output(df: DataFrame, columns: tuple[str, ...]) -> StructType:
    """The rows of sliding windows: the group, the values, and the window's end as the time."""
    values = [name for name in df.columns if name not in (*columns, TIME)]
    return StructType([*fields_of(df, [*columns, *values]), df.schema[TIME]])
