"""What Java's ``toString`` says of values, for transforms and converters that make text of them."""

import struct
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from math import copysign, isinf, isnan
from typing import Any

from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.logical import EPOCH, in_utc
from millstream.pipelines.connect.schema import Schema, Type

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_FLOAT32 = struct.Struct("<f")
_DIGITS_OF_FLOAT32 = range(1, 10)


def text_of(schema: Schema | None, value: Any) -> str:
    """The text; bytes have none."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | Decimal):
        return str(value)
    if isinstance(value, float):
        return float_text(value, is_double=schema is None or schema.type is not Type.FLOAT32)
    if isinstance(value, date | time):
        return _moment(value)
    if isinstance(value, list | tuple):
        inner = schema.values if schema is not None else None
        return "[" + ", ".join(text_of(inner, item) for item in value) + "]"
    if isinstance(value, Mapping):
        return _mapping(schema, value)
    raise DataError(f"a value of type {type(value).__name__} has no text")


def _mapping(schema: Schema | None, value: Mapping[Any, Any]) -> str:
    if schema is not None and schema.type is Type.STRUCT:
        present = [(field, value[field.name]) for field in schema.fields if value.get(field.name) is not None]
        return "Struct{" + ",".join(f"{field.name}={text_of(field.schema, item)}" for field, item in present) + "}"
    keys, values = (schema.keys, schema.values) if schema is not None else (None, None)
    return "{" + ", ".join(f"{text_of(keys, key)}={text_of(values, item)}" for key, item in value.items()) + "}"


def _moment(value: date | time) -> str:
    if isinstance(value, time):
        moment = datetime.combine(EPOCH, value)
    elif isinstance(value, datetime):
        moment = in_utc(value)
    else:
        moment = datetime.combine(value, time())
    day, month = _DAYS[moment.weekday()], _MONTHS[moment.month - 1]
    return f"{day} {month} {moment:%d %H:%M:%S} UTC {moment.year:04}"


def float_text(value: float, is_double: bool = True) -> str:
    """A number with a point, and with an exponent where it is below 0.001, or 10,000,000 and above."""
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign = "-" if copysign(1, value) < 0 else ""
    if value == 0:
        return f"{sign}0.0"
    _, digits, exponent = Decimal(repr(abs(value if is_double else shortest_float32(value)))).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0")
    point = len(digits) + exponent
    if -3 < point <= 7:
        whole = text[:point].ljust(point, "0") if point > 0 else "0"
        return f"{sign}{whole}.{('0' * -point + text[max(point, 0) :]) or '0'}"
    return f"{sign}{text[0]}.{text[1:] or '0'}E{point - 1}"


def as_float32(value: float) -> float:
    """The nearest number that 32 bits hold."""
    try:
        found: float = _FLOAT32.unpack(_FLOAT32.pack(value))[0]
    except OverflowError:
        return copysign(float("inf"), value)
    return found


def shortest_float32(value: float) -> float:
    """The number with the fewest digits that is the same in 32 bits."""
    wanted = as_float32(value)
    for digits in _DIGITS_OF_FLOAT32:
        found = float(f"{wanted:.{digits}g}")
        if as_float32(found) == wanted:
            return found
    return wanted
