"""The join of two tables by a column of the left one: three steps, each keyed by what it must know.

1. By the left key: how many changes a row has seen (its version), and the foreign key it had before.
2. By the foreign key: the right row, and the left rows that point to it. A left row that turns elsewhere is let go here
   without a word; the place it turns to speaks for it.
3. By the left key: of results that cross on their way, those of the newest version.
"""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle, TimerValues
from pyspark.sql.types import BooleanType, LongType, StructField, StructType

from millstream.pipelines.streams.keyed import RIGHT, SIDE, Keyed, State, in_order, keep, made, picked
from millstream.pipelines.streams.shapes import Shape
from millstream.pipelines.streams.stream import DELETED, ORDER, TIME

FOREIGN, VERSION, LEAVES, PLACED = "_foreign", "_version", "_leaves", "_placed"


class Subscribe(Keyed):
    """Each change of a left row, addressed to its foreign key; and word to the one it had before."""

    def __init__(self, keys: tuple[str, ...], foreign: str, values: StructType, output: list[str], how: str) -> None:
        self._keys, self._foreign, self._values, self._output = keys, foreign, values, output
        self._keeps_null = how == "left"

    def init(self, handle: StatefulProcessorHandle) -> None:
        """The version of a left row, whether it points anywhere, and where to."""
        placed = StructField(PLACED, BooleanType())
        kept = StructType([StructField(VERSION, LongType()), placed, self._values[self._foreign]])
        self._pointer = State(handle, "pointer", kept)

    def take(self, key: Any, rows: list[Row], timerValues: TimerValues) -> Iterator[Row]:
        """One row for where it points now, and one for where it no longer does."""
        before = self._pointer.get() or {VERSION: 0, PLACED: False, self._foreign: None}
        keys = dict(zip(self._keys, key, strict=True))
        for row in sorted(rows, key=lambda row: int(row[ORDER])):
            target = row[self._foreign]
            # A left join has a result for a row that points to nothing; all such rows meet at the key null.
            placed = not row[DELETED] and (target is not None or self._keeps_null)
            now = {VERSION: before[VERSION] + 1, PLACED: placed, self._foreign: target if placed else None}
            change = {**keys, **picked(row, [*self._values.names, TIME, ORDER]), VERSION: now[VERSION]}
            if before[PLACED] and not (placed and before[self._foreign] == target):
                # A row that is nowhere from now on has nobody to speak for it but the one it leaves.
                leaves = {FOREIGN: before[self._foreign], LEAVES: True, DELETED: not placed}
                yield made(self._output, {**change, **leaves})
            if placed:
                yield made(self._output, {**change, FOREIGN: target, LEAVES: False, DELETED: False})
            before = now
        # The version outlives the row, or a row that comes back would lose against results on their way.
        self._pointer.set(before)


class Match(Keyed):
    """The right row of a foreign key, and the left rows that point to it."""

    def __init__(self, key_type: StructType, left: StructType, right: StructType, output: list[str], how: str) -> None:
        self._key_type, self._right, self._output, self._how = key_type, right, output, how
        self._left = StructType([*left.fields, StructField(VERSION, LongType())])

    def init(self, handle: StatefulProcessorHandle) -> None:
        """The right row, and the left rows by their key."""
        self._row = State(handle, "right", self._right)
        self._rows = handle.getMapState("left", self._key_type, self._left)

    def take(self, key: Any, rows: list[Row], timerValues: TimerValues) -> Iterator[Row]:
        """A result for each left row that changes, and for all of them when the right row does."""
        right = self._row.get()
        for row in in_order(rows):
            if row[SIDE] == RIGHT:
                right = None if row[DELETED] else picked(row, self._right.names)
                yield from self._all(right, row[TIME])
            else:
                yield from self._one(row, right)
        keep(self._row, right)

    def _one(self, row: Row, right: dict[str, Any] | None) -> Iterator[Row]:
        key = picked(row, self._key_type.names)
        left = picked(row, self._left.names)
        if not row[LEAVES]:
            self._rows.updateValue(tuple(key.values()), tuple(left.values()))
            yield self._result({**key, **left}, right, row[TIME])
            return
        # It may have come and gone within one micro-batch, in which case it is not kept here.
        if self._rows.containsKey(tuple(key.values())):
            self._rows.removeKey(tuple(key.values()))
        if row[DELETED]:
            yield self._result({**key, **left}, None, row[TIME], deleted=True)

    def _all(self, right: dict[str, Any] | None, time: Any) -> Iterator[Row]:
        for kept_key, kept in list(self._rows.iterator()):
            key, left = Shape(self._key_type).fields(kept_key), Shape(self._left).fields(kept)
            yield self._result({**key, **left}, right, max(time, left[TIME]))

    def _result(self, left: dict[str, Any], right: dict[str, Any] | None, time: Any, deleted: bool = False) -> Row:
        deleted = deleted or (right is None and self._how == "inner")
        return made(self._output, {**left, **(right or {}), TIME: time, DELETED: deleted})


class Resolve(Keyed):
    """Results of a left row in the order of its versions; deletions only of what was there."""

    def __init__(self, keys: tuple[str, ...], output: list[str]) -> None:
        self._keys, self._output = keys, output

    def init(self, handle: StatefulProcessorHandle) -> None:
        """The newest version seen, and whether its result was there."""
        kept = StructType([StructField(VERSION, LongType()), StructField("there", LongType())])
        self._newest = State(handle, "newest", kept)

    def take(self, key: Any, rows: list[Row], timerValues: TimerValues) -> Iterator[Row]:
        """What is not outdated."""
        newest = self._newest.get() or {VERSION: 0, "there": 0}
        keys = dict(zip(self._keys, key, strict=True))
        for place, row in enumerate(sorted(rows, key=lambda row: int(row[VERSION]))):
            if row[VERSION] < newest[VERSION]:
                continue
            if newest["there"] or not row[DELETED]:
                yield made(self._output, {**row.asDict(recursive=False), **keys, ORDER: place})
            newest = {VERSION: row[VERSION], "there": 0 if row[DELETED] else 1}
        self._newest.set(newest)
