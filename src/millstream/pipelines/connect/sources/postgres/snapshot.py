"""The rows that are there before changes come, kept apart from these changes without holding anything still.  Pure.

A slot is made first; it gives every transaction that commits from then on.  Rows are read later, in pieces, each as the
database is at that time.  So a row may show a change that the slot gives as well: such rows are left out here, and come
with their change.  A piece that is read again, at whatever later time, is therefore as right as the first time.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from millstream.pipelines.connect.postgres.catalog import Table
from millstream.pipelines.connect.postgres.connection import Texts
from millstream.pipelines.connect.postgres.pgoutput import UNCHANGED, Delete, Insert, Relation, Row, Update


@dataclass(frozen=True, slots=True)
class Visible:
    """Which transactions a database snapshot shows."""

    #: The first number that had not been given out.
    end: int
    running: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> "Visible":
        """From what ``txid_current_snapshot()`` says: ``xmin:xmax:running,…``."""
        _, end, running = text.split(":")
        return cls(int(end), frozenset(int(number) for number in running.split(",") if number))

    def has(self, xid: int) -> bool:
        """Whether the effects of a transaction, by its number's lower 32 bits, are seen."""
        full = (self.end & ~0xFFFFFFFF) | xid
        if full > self.end + (1 << 31):
            full -= 1 << 32  # Of before the last time that they were used up.
        return full < self.end and full not in self.running


@dataclass
class Touched:
    """Which rows of a table changes have touched that are given by the slot.

    By the primary key; where there is none, a row is known by all of its values, and equal rows by how many they are.
    """

    table: Table
    _keys: set[Texts] = field(default_factory=set)
    _rows: Counter[Texts] = field(default_factory=Counter)

    def add(self, change: Insert | Update | Delete, relation: Relation) -> None:
        """A change that a snapshot shows."""
        new = None if isinstance(change, Delete) else change.new
        old = None if isinstance(change, Insert) else change.old
        names = [column.name for column in relation.columns]
        if self.table.key:
            if isinstance(change, Update) and self._lacks(change, names):
                return
            for row in (new, old):
                if row is not None and (key := _picked(row, names, self.table.key, old)) is not None:
                    self._keys.add(key)
            return
        every = [column.name for column in self.table.columns]
        if old is not None and (gone := _picked(old, names, every, None)) is not None:
            self._rows[gone] -= 1
        if new is not None and (come := _picked(new, names, every, old)) is not None:
            self._rows[come] += 1

    def _lacks(self, change: Update, names: list[str]) -> bool:
        """Whether a large value is not in the change, so that only the row has it: then it comes as well."""
        large = [name for name, value in zip(names, change.new, strict=True) if value is UNCHANGED]
        return not change.is_full and not set(large) <= set(self.table.key)

    def takes(self, texts: Texts) -> bool:
        """Whether a row that was read, its columns in the table's order, is one of those; each is taken once."""
        if self.table.key:
            places = [place for place, column in enumerate(self.table.columns) if column.name in self.table.key]
            by_name = {self.table.columns[place].name: texts[place] for place in places}
            return tuple(by_name[name] for name in self.table.key) in self._keys
        if self._rows[texts] > 0:
            self._rows[texts] -= 1
            return True
        return False


def _picked(row: Row, names: list[str], wanted: Any, old: Row | None) -> Texts | None:
    """The values of some columns; those that are unchanged are in the old row, or it is not known what they are."""
    places = {name: place for place, name in enumerate(names)}
    picked: list[str | None] = []
    for name in wanted:
        value = row[places[name]] if name in places else None
        if value is UNCHANGED:
            value = old[places[name]] if old is not None else UNCHANGED
        if value is UNCHANGED:
            return None
        assert value is None or isinstance(value, str)
        picked.append(value)
    return tuple(picked)
