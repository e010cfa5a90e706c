"""Values as a worker's Python should see them, whichever way Spark hands them over.

In rows it gives dicts for structs, pairs for maps and times with a zone; from state, Rows, dicts and times without one.
Here a struct is a Row, a map a dict, and a time has a zone.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import Row
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampType

Shaper = Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


def _aware(value: datetime) -> datetime:
    return value if value.tzinfo else value.astimezone(UTC)


def _or_none(shape: Shaper) -> Shaper:
    return lambda value: None if value is None else shape(value)


def shaper(kind: DataType) -> Shaper:
    """What gives a value of that type its shape; ``_same`` where there is nothing to do."""
    if isinstance(kind, TimestampType):
        return _or_none(_aware)
    if isinstance(kind, ArrayType):
        item = shaper(kind.elementType)
        return _same if item is _same else _or_none(lambda items: [item(one) for one in items])
    if isinstance(kind, MapType):
        key, value = shaper(kind.keyType), shaper(kind.valueType)
        return _or_none(lambda entries: {key(one): value(other) for one, other in dict(entries).items()})
    if isinstance(kind, StructType):
        names, parts = kind.names, [shaper(field.dataType) for field in kind.fields]

        def struct(fields: Any) -> Row:
            values = [fields.get(name) for name in names] if isinstance(fields, dict) else fields
            return Row(**{name: part(one) for name, part, one in zip(names, parts, values, strict=True)})

        return _or_none(struct)
    return _same


class Shape:
    """The shape of rows of a schema."""

    def __init__(self, schema: StructType) -> None:
        self._names = schema.names
        self._types = [field.dataType for field in schema.fields]

    def rows(self, rows: Iterable[Row]) -> list[Row]:
        """Rows as Spark hands them to a processor. Most need nothing, for their times have a zone already."""
        complex_types = (ArrayType, MapType, StructType)
        changes = {
            name: shaper(kind)
            for name, kind in zip(self._names, self._types, strict=True)
            if isinstance(kind, complex_types) and shaper(kind) is not _same
        }
        if not changes:
            return list(rows)
        return [
            Row(**{name: changes.get(name, _same)(value) for name, value in zip(self._names, row, strict=True)})
            for row in rows
        ]

    def fields(self, values: Iterable[Any]) -> dict[str, Any]:
        """What was kept as state."""
        shaped = (shaper(kind)(value) for kind, value in zip(self._types, values, strict=True))
        return dict(zip(self._names, shaped, strict=True))
