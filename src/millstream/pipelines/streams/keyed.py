"""What runs on the workers with state for each key: tables and their joins. Rows of a batch come in order of time."""

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues, ValueState
from pyspark.sql.types import BooleanType, LongType, StructField, StructType, TimestampType

from millstream.pipelines.streams.shapes import Shape
from millstream.pipelines.streams.stream import APPEND, DELETED, ORDER, TIME

#: Event time in microseconds, by which rows are sorted; and which input a row is from.
AT, SIDE = "_at", "_side"
LEFT, RIGHT = 1, 0  # At one and the same time the right side, which is looked up, comes first.


class Keyed(StatefulProcessor):
    """Rows of a key, a batch of them at a time, in the shape that Python should see."""

    shape: Shape

    def take(self, key: Any, rows: list[Row], timerValues: TimerValues) -> Iterable[Row]:
        """What the rows lead to."""
        raise NotImplementedError

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:
        """Spark's way of calling ``take``."""
        yield from self.take(key, self.shape.rows(rows), timerValues)

    def close(self) -> None:
        """Nothing is held beside the state."""


class State:
    """One value of named fields for the current key, read and written as a dict."""

    def __init__(self, handle: StatefulProcessorHandle, name: str, schema: StructType) -> None:
        self._state: ValueState = handle.getValueState(name, schema)
        self._names, self._shape = schema.names, Shape(schema)

    def get(self) -> dict[str, Any] | None:
        """The fields, or None where nothing is kept."""
        kept = self._state.get()
        return None if kept is None else self._shape.fields(kept)

    def set(self, fields: dict[str, Any]) -> None:
        """Keep these."""
        self._state.update(tuple(fields[name] for name in self._names))

    def clear(self) -> None:
        """Keep nothing."""
        self._state.clear()


def run(
    df: DataFrame,
    keys: Iterable[str],
    processor: Keyed,
    output: StructType,
    time_mode: str = "none",
    event_time: str = "",
) -> DataFrame:
    """The rows that the processor gives, each once, so that further operators with state may follow."""
    processor.shape = Shape(df.schema)
    grouped = df.groupBy(*keys)
    return grouped.transformWithState(processor, output, APPEND, time_mode, eventTimeColumnName=event_time)


def fields_of(df: DataFrame, names: Iterable[str]) -> list[StructField]:
    """The fields of those columns; a row that is deleted has none of them, so each may be null."""
    return [StructField(name, df.schema[name].dataType) for name in names]


#: What a table's changelog has beside its key and its values.
CHANGE = [StructField(TIME, TimestampType()), StructField(DELETED, BooleanType()), StructField(ORDER, LongType())]


def with_time(df: DataFrame) -> DataFrame:
    """Rows with the column that they are sorted by."""
    return df.withColumn(AT, F.unix_micros(TIME))


def picked(row: Row, names: list[str]) -> dict[str, Any]:
    """Some of a row's columns."""
    return {name: row[name] for name in names}


def made(names: list[str], fields: dict[str, Any]) -> Row:
    """A row of these columns, null where there is no field: Spark takes them by their place."""
    return Row(**{name: fields.get(name) for name in names})


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Rows of two sides by time, the right side first where times are equal; each side keeps an order of its own.

    A side's later change is never put before its earlier one, even where it bears an earlier time.
    """
    placed = []
    newest = {LEFT: -(2**63), RIGHT: -(2**63)}
    for place, row in enumerate(sorted(rows, key=lambda row: int(row[ORDER]))):
        side = row[SIDE]
        newest[side] = max(newest[side], row[AT])
        placed.append((newest[side], side, place, row))
    return [row for *_, row in sorted(placed, key=lambda entry: entry[:3])]


class Latest(Keyed):
    """The changelog of a table: a row for each change, none for what changes nothing."""

    def __init__(
        self, keys: tuple[str, ...], kept: StructType, output: list[str], by_time: bool, order: list[str]
    ) -> None:
        self._keys, self._kept, self._output = keys, kept, output
        self._by_time, self._order = by_time, order

    def init(self, handle: StatefulProcessorHandle) -> None:
        """The table's state: its columns, the time of its row and whether it is deleted."""
        self._table = State(handle, "table", self._kept)

    def take(self, key: Any, rows: list[Row], timerValues: TimerValues) -> Iterator[Row]:
        """Changes in order."""
        current = self._table.get()
        keys = dict(zip(self._keys, key, strict=True))
        ordered = sorted(rows, key=lambda row: [int(row[name]) for name in self._order])
        for place, row in enumerate(ordered):
            if self._by_time and current is not None and row[TIME] < current[TIME]:
                continue
            was_there = current is not None and not current[DELETED]
            current = picked(row, self._kept.names)
            if was_there or not row[DELETED]:
                yield made(self._output, {**keys, **current, ORDER: place})
        if current is None or (current[DELETED] and not self._by_time):
            self._table.clear()
        else:
            # By time, a deletion is kept: it must outlive what is older and comes later.
            self._table.set(current)


class TableJoin(Keyed):
    """The changelog of two tables joined by their key."""

    def __init__(self, keys: tuple[str, ...], left: StructType, right: StructType, output: list[str], how: str) -> None:
        self._keys, self._schemas, self._output, self._how = keys, {LEFT: left, RIGHT: right}, output, how

    def init(self, handle: StatefulProcessorHandle) -> None:
        """The latest row of each side."""
        names = {LEFT: "left", RIGHT: "right"}
        self._sides = {side: State(handle, names[side], schema) for side, schema in self._schemas.items()}

    def take(self, key: Any, rows: list[Row], timerValues: TimerValues) -> Iterator[Row]:
        """A row wherever the joined row changes."""
        sides = {side: state.get() for side, state in self._sides.items()}
        keys = dict(zip(self._keys, key, strict=True))
        for place, row in enumerate(in_order(rows)):
            before = self._joins(sides)
            sides[row[SIDE]] = None if row[DELETED] else picked(row, self._schemas[row[SIDE]].names)
            change = {**keys, TIME: row[TIME], ORDER: place}
            if self._joins(sides):
                yield made(self._output, {**change, **_both(sides[LEFT], sides[RIGHT]), DELETED: False})
            elif before:
                yield made(self._output, {**change, DELETED: True})
        for side, state in self._sides.items():
            keep(state, sides[side])

    def _joins(self, sides: dict[int, dict[str, Any] | None]) -> bool:
        left, right = sides[LEFT] is not None, sides[RIGHT] is not None
        return {"inner": left and right, "left": left, "right": right, "full": left or right}[self._how]


def _both(left: dict[str, Any] | None, right: dict[str, Any] | None) -> dict[str, Any]:
    there = [side for side in (left, right) if side is not None]
    return {**(left or {}), **(right or {}), TIME: max(side[TIME] for side in there)}


def keep(state: State, fields: dict[str, Any] | None) -> None:
    """Keep the fields, or nothing."""
    if fields is None:
        state.clear()
    else:
        state.set(fields)


class Lookup(Keyed):
    """A stream's rows, each with the row that the table has for its key."""

    def __init__(
        self, keys: tuple[str, ...], stream: list[str], table: StructType, output: list[str], how: str
    ) -> None:
        self._keys, self._stream, self._schema, self._output, self._how = keys, stream, table, output, how

    def init(self, handle: StatefulProcessorHandle) -> None:
        """The table's latest row."""
        self._table = State(handle, "table", self._schema)

    def take(self, key: Any, rows: list[Row], timerValues: TimerValues) -> Iterator[Row]:
        """Changes of the table and rows of the stream, in order of their times."""
        current, changed = self._table.get(), False
        keys = dict(zip(self._keys, key, strict=True))
        for row in in_order(rows):
            if row[SIDE] == RIGHT:
                current, changed = None if row[DELETED] else picked(row, self._schema.names), True
            elif current is not None or self._how == "left":
                yield made(self._output, {**keys, **(current or {}), **picked(row, self._stream)})
        if changed:
            keep(self._table, current)
