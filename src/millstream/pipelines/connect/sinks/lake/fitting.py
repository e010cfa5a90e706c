"""Scalars brought into a column of a given type, where nothing is lost by it."""

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from millstream.pipelines.connect.errors import DataError

#: Up to here a double has every whole number.
EXACT_IN_DOUBLE = 2**53

Fit = Callable[[Any], Any]


class Misfit(DataError):
    """A value that a column cannot take; whoever passes it on puts the names of fields in front."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.fields: list[str] = []

    def __str__(self) -> str:
        return f"field {'.'.join(reversed(self.fields))}: {self.reason}" if self.fields else self.reason


def shown(value: Any) -> str:
    """A value in a message: never long."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def fit_for(kind: Any) -> Fit:
    """What brings values into a column of this type, or raises Misfit."""
    accept = next((make(kind) for holds, make in _FITS if holds(kind)), None)
    if accept is None:
        raise DataError(f"a column of type {kind} cannot be written to")

    def fit(value: Any) -> Any:
        taken = accept(value)
        if taken is None:
            raise Misfit(f"{shown(value)} does not fit into a column of type {kind}")
        return taken

    return fit


def _whole(kind: Any) -> Fit:
    signed = pa.types.is_signed_integer(kind)
    least, limit = (-(1 << kind.bit_width - 1), 1 << kind.bit_width - 1) if signed else (0, 1 << kind.bit_width)

    def accept(value: Any) -> int | None:
        if type(value) is float and value.is_integer():
            value = int(value)
        return value if type(value) is int and least <= value < limit else None

    return accept


def _real(_: Any) -> Fit:
    def accept(value: Any) -> float | None:
        if type(value) is int and -EXACT_IN_DOUBLE <= value <= EXACT_IN_DOUBLE:
            return float(value)
        return value if type(value) is float else None

    return accept


def _text(_: Any) -> Fit:
    def accept(value: Any) -> str | None:
        if type(value) is datetime.time:  # Where a table has no times of day.
            return value.isoformat()
        return value if type(value) is str and _is_unicode(value) else None

    return accept


def _is_unicode(text: str) -> bool:
    """JSON may escape halves of characters, which no table has."""
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def _raw(_: Any) -> Fit:
    return lambda value: bytes(value) if isinstance(value, bytes | bytearray | memoryview) else None


def _truth(_: Any) -> Fit:
    return lambda value: value if type(value) is bool else None


def _number(kind: Any) -> Fit:
    limit = Decimal(10) ** (kind.precision - kind.scale)

    def accept(value: Any) -> Decimal | None:
        if type(value) is int:
            value = Decimal(value)
        if not isinstance(value, Decimal) or not value.is_finite() or not -limit < value < limit:
            return None
        _, digits, exponent = value.as_tuple()
        beyond = -kind.scale - int(exponent)  # Digits that the column has no place for, unless they are zeros.
        return value if beyond <= 0 or not any(digits[-beyond:]) else None

    return accept


def _instant(_: Any) -> Fit:
    return lambda value: value if isinstance(value, datetime.datetime) else None


def _day(_: Any) -> Fit:
    return lambda value: value if type(value) is datetime.date else None


def _time(_: Any) -> Fit:
    return lambda value: value if isinstance(value, datetime.time) else None


_FITS: tuple[tuple[Callable[[Any], bool], Callable[[Any], Fit]], ...] = (
    (pa.types.is_integer, _whole),
    (pa.types.is_floating, _real),
    (pa.types.is_string, _text),
    (pa.types.is_binary, _raw),
    (pa.types.is_boolean, _truth),
    (pa.types.is_decimal, _number),
    (pa.types.is_timestamp, _instant),
    (pa.types.is_date, _day),
    (pa.types.is_time, _time),
)
