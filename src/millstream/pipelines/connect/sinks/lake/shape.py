"""The shape of a table: what its columns are, what records add to it, and values brought into it.

A column that is *settled*, for the table has it, keeps its type for good, and values that would lose something in it
are refused. One that is not may still grow wider.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from millstream.pipelines.connect.sinks.lake import types
from millstream.pipelines.connect.sinks.lake.fitting import EXACT_IN_DOUBLE, Fit, Misfit, fit_for, shown


@dataclass(frozen=True, slots=True)
class Dialect:
    """What kinds of tables have in different ways."""

    has_times: bool = True
    #: Characters that no column's name may have.
    forbidden: str = ""


@dataclass(frozen=True, slots=True)
class _Frame:
    """What all parts of a shape share."""

    dialect: Dialect
    #: What takes back the growth by the record that is being taken, for it may yet turn out not to fit.
    undo: list[Callable[[], None]] = field(default_factory=list)


class _Scalar:
    """A number, a text and the like."""

    def __init__(self, kind: Any, is_settled: bool, frame: _Frame) -> None:
        self._set(kind)
        self._is_settled = is_settled
        self._frame = frame
        #: Whether a whole number came that a double has not.
        self._is_long = False

    def _set(self, kind: Any) -> None:
        self.kind = kind
        self._fit: Fit = fit_for(kind)

    def _widen(self, kind: Any) -> None:
        before = self.kind
        self._frame.undo.append(lambda: self._set(before))
        self._set(kind)

    def _wider(self, kind: Any) -> Any:
        wider = types.wider(self.kind, kind)
        return None if self._is_long and wider == pa.float64() else wider

    def grow(self, kind: Any, is_settled: bool) -> None:
        wider = self._wider(kind)
        if self._is_settled:
            # Its values decide, one by one; a type that has nothing in common is refused before any comes.
            if wider is None and not _is_related(self.kind, kind):
                raise Misfit(f"{kind} does not fit into a column of type {self.kind}")
        elif wider is None:
            raise Misfit(f"is {kind} here, and {self.kind} elsewhere")
        elif wider != self.kind:
            self._widen(wider)

    def take(self, value: Any) -> Any:
        try:
            taken = self._fit(value)
        except Misfit:
            wider = None if self._is_settled else self._wider(types.of_value(value))
            if wider is None or wider == self.kind:
                raise
            self._widen(wider)
            taken = self._fit(value)
        if type(taken) is int and not -EXACT_IN_DOUBLE <= taken <= EXACT_IN_DOUBLE:
            self._is_long = True
        return taken


def _is_related(one: Any, other: Any) -> bool:
    """Whether some values of both types are the same."""
    families = (pa.types.is_integer, pa.types.is_floating), (pa.types.is_decimal, pa.types.is_integer)
    whole = any(all(any(holds(kind) for holds in family) for kind in (one, other)) for family in families)
    return whole or (pa.types.is_string(one) and pa.types.is_time(other))


class _List:
    def __init__(self, element: "Slot") -> None:
        self.element = element

    @property
    def kind(self) -> Any:
        element = self.element.kind
        return None if element is None else pa.list_(element)

    def grow(self, kind: Any, is_settled: bool) -> None:
        if not pa.types.is_list(kind):
            raise Misfit(f"is {kind} here, and a list elsewhere")
        self.element.grow(kind.value_type, is_settled)

    def take(self, value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise Misfit(f"{shown(value)} is not a list")
        take = self.element.take
        return [take(item) for item in value]


class _Map:
    def __init__(self, keys: "Slot", values: "Slot") -> None:
        self.keys, self.values = keys, values

    @property
    def kind(self) -> Any:
        keys, values = self.keys.kind, self.values.kind
        return None if keys is None or values is None else pa.map_(keys, values)

    def grow(self, kind: Any, is_settled: bool) -> None:
        if not pa.types.is_map(kind):
            raise Misfit(f"is {kind} here, and a map elsewhere")
        self.keys.grow(kind.key_type, is_settled)
        self.values.grow(kind.item_type, is_settled)

    def take(self, value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise Misfit(f"{shown(value)} is not a map")
        if None in value:
            raise Misfit("a key of the map is null")
        return [(self.keys.take(key), self.values.take(item)) for key, item in value.items()]


class Struct:
    """Named fields; also a table's columns."""

    def __init__(self, dialect: Dialect, frame: _Frame | None = None) -> None:
        self._frame = frame or _Frame(dialect)
        self.slots: dict[str, Slot] = {}
        self._lower: set[str] = set()
        self._required: list[str] = []

    @property
    def fields(self) -> list[Any]:
        """Those that anything is known of."""
        kinds = ((name, slot.kind) for name, slot in self.slots.items())
        return [pa.field(name, kind, name not in self._required) for name, kind in kinds if kind is not None]

    @property
    def kind(self) -> Any:
        fields = self.fields
        return pa.struct(fields) if fields else None

    def grow(self, kind: Any, is_settled: bool) -> None:
        if not pa.types.is_struct(kind):
            raise Misfit(f"is {kind} here, and a struct elsewhere")
        self.grow_fields((kind.field(index) for index in range(kind.num_fields)), is_settled)

    def grow_fields(self, fields: Iterable[Any], is_settled: bool) -> None:
        """Make room for these."""
        for each in fields:
            slot = self.slots.get(each.name) or self._add(each.name)
            if not each.nullable and is_settled:
                self._required.append(each.name)
            try:
                slot.grow(each.type, is_settled)
            except Misfit as misfit:
                misfit.fields.append(each.name)
                raise

    def take(self, value: Any) -> Any:
        """The value with each field brought into its column; new fields get a column."""
        if not isinstance(value, Mapping):
            raise Misfit(f"{shown(value)} is not a struct")
        taken: dict[str, Any] = {}
        name = ""
        try:
            for name, part in value.items():
                if part is not None:
                    taken[name] = (self.slots.get(name) or self._add(name)).take(part)
        except Misfit as misfit:
            misfit.fields.append(name)
            raise
        for name in self._required:
            if name not in taken:
                raise Misfit(f"field {name} has no value, and its column must have one")
        return taken

    def keep(self) -> None:
        """What was grown is grown for good."""
        self._frame.undo.clear()

    def shrink(self) -> None:
        """Take back what was grown since ``keep``."""
        while self._frame.undo:
            self._frame.undo.pop()()

    def _add(self, name: str) -> "Slot":
        if type(name) is not str or not name:
            raise Misfit(f"{shown(name)} cannot be a column's name")
        if name.lower() in self._lower:
            raise Misfit("its name differs from another's by capitals only, which few engines can read")
        if wrong := set(name) & set(self._frame.dialect.forbidden):
            raise Misfit(f"a column's name may have none of {' '.join(sorted(map(repr, wrong)))} in this kind of table")
        self._lower.add(name.lower())
        self.slots[name] = Slot(self._frame)
        self._frame.undo.append(lambda: self._remove(name))
        return self.slots[name]

    def _remove(self, name: str) -> None:
        self._lower.discard(name.lower())
        del self.slots[name]


class Slot:
    """Where a value has its place; of unknown kind until the first comes that is not null and not empty."""

    __slots__ = ("_frame", "_shape")

    def __init__(self, frame: _Frame) -> None:
        self._frame = frame
        self._shape: _Scalar | _List | _Map | Struct | None = None

    @property
    def kind(self) -> Any:
        """Its Arrow type; None while nothing is known."""
        return None if self._shape is None else self._shape.kind

    def grow(self, kind: Any, is_settled: bool) -> None:
        """Make room for values of this type."""
        kind = self._spelled(kind)
        if self._shape is None:
            self._set(self._of(kind, is_settled))
        assert self._shape is not None
        self._shape.grow(kind, is_settled)

    def take(self, value: Any) -> Any:
        """The value as this slot has it."""
        if value is None:
            return None
        if self._shape is None:
            self._set(self._for(value))
        assert self._shape is not None
        return self._shape.take(value)

    def _set(self, shape: "_Scalar | _List | _Map | Struct | None") -> None:
        if shape is not None:
            self._frame.undo.append(lambda: self._set(None))
        self._shape = shape

    def _spelled(self, kind: Any) -> Any:
        return pa.string() if pa.types.is_time(kind) and not self._frame.dialect.has_times else kind

    def _of(self, kind: Any, is_settled: bool) -> "_Scalar | _List | _Map | Struct":
        if pa.types.is_struct(kind):
            return Struct(self._frame.dialect, self._frame)
        if pa.types.is_list(kind):
            return _List(Slot(self._frame))
        if pa.types.is_map(kind):
            return _Map(Slot(self._frame), Slot(self._frame))
        return _Scalar(kind, is_settled, self._frame)

    def _for(self, value: Any) -> "_Scalar | _List | _Map | Struct":
        if isinstance(value, Mapping):
            return Struct(self._frame.dialect, self._frame)
        if isinstance(value, list | tuple):
            return _List(Slot(self._frame))
        if type(value) is int and not -(2**63) <= value < 2**63:
            raise Misfit(f"{shown(value)} does not fit into 64 bits")
        kind = types.of_value(value)
        if kind is None:
            raise Misfit(f"{shown(value)} is of no type that tables have")
        return _Scalar(self._spelled(kind), False, self._frame)


def columns(rows: list[Any], fields: list[Any]) -> list[Any]:
    """The rows, each taken by a ``Struct`` of these fields, by columns."""
    return [pa.array([row.get(field.name) for row in rows], field.type) for field in fields]
