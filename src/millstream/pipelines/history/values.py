"""Rows of Spark's as plain values: what JSON and YAML know."""

import json
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

Plain = Callable[[Any], object]


def labels(names: Sequence[str]) -> list[str]:
    """The columns' names, those that come again with a number: a join may give two of one name."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return found


def plain_rows(schema: StructType) -> Callable[[Sequence[Any]], dict[str, object]]:
    """What makes a dict of a row of that schema."""
    names = labels(schema.names)
    converters = [_converter(field.dataType) for field in schema.fields]

    def convert(row: Sequence[Any]) -> dict[str, object]:
        return {name: convert(value) for name, convert, value in zip(names, converters, row, strict=True)}

    return convert


def _converter(kind: DataType) -> Plain:
    """A value of this type as a plain one; null is None in all of them."""
    inner = _nested(kind) or next((found for known, found in _PLAIN.items() if isinstance(kind, known)), str)
    return lambda value: None if value is None else inner(value)


def _nested(kind: DataType) -> Plain | None:
    if isinstance(kind, StructType):
        return plain_rows(kind)
    if isinstance(kind, ArrayType):
        element = _converter(kind.elementType)
        return lambda values: [element(value) for value in values]
    if isinstance(kind, MapType):
        key, element = _converter(kind.keyType), _converter(kind.valueType)
        return lambda values: {str(key(name)): element(value) for name, value in values.items()}
    return None


def _bytes(data: bytes) -> str:
    """Text where it is text, else digits."""
    try:
        return bytes(data).decode()
    except UnicodeDecodeError:
        return "0x" + bytes(data).hex()


def _float(number: float) -> float | str:
    """JSON has no word for what is not finite; Spark's own are taken."""
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _decimal(number: Decimal) -> float | int | str:
    """A number, as long as none of its digits is lost."""
    if number == number.to_integral_value():
        return int(number)
    near = float(number)
    return near if Decimal(repr(near)) == number else str(number)


def _moment(moment: datetime) -> str:
    """In UTC; Spark hands moments over in the machine's zone."""
    return _time(moment.astimezone(UTC).replace(tzinfo=None)) + "Z"


def _time(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds" if moment.microsecond % 1000 else "milliseconds")


_PLAIN: dict[type[DataType], Plain] = {
    BinaryType: _bytes,
    BooleanType: bool,
    IntegralType: int,
    FloatType: _float,
    DoubleType: _float,
    DecimalType: _decimal,
    TimestampType: _moment,
    TimestampNTZType: _time,
    VariantType: lambda value: json.loads(value.toJson("UTC")),
}
