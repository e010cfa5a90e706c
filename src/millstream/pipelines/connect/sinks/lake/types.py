"""Types of columns: what Arrow has for Connect's schemas, for values without one, and for the tables of others."""

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type

#: Enough for any engine; decimals of Connect do not say how many digits they have.
DECIMAL_DIGITS = 38
#: What lakes agree on for an instant.
INSTANT = pa.timestamp("us", "UTC")
TIME_OF_DAY = pa.time64("us")

#: Small whole numbers are widened, for Iceberg has none.
_SCALARS = {
    Type.INT8: pa.int32(),
    Type.INT16: pa.int32(),
    Type.INT32: pa.int32(),
    Type.INT64: pa.int64(),
    Type.FLOAT32: pa.float32(),
    Type.FLOAT64: pa.float64(),
    Type.BOOLEAN: pa.bool_(),
    Type.STRING: pa.string(),
    Type.BYTES: pa.binary(),
}
_LOGICAL = {DATE: pa.date32(), TIME: TIME_OF_DAY, TIMESTAMP: INSTANT}
_INFERRED: dict[type, Any] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    datetime.datetime: INSTANT,
    datetime.date: pa.date32(),
    datetime.time: TIME_OF_DAY,
}
#: What a column that nobody relies on yet may become when wider values come.
_WIDER = {
    (pa.int32(), pa.int64()): pa.int64(),
    (pa.int32(), pa.float64()): pa.float64(),
    (pa.int64(), pa.float64()): pa.float64(),
    (pa.int32(), pa.float32()): pa.float64(),
    (pa.int64(), pa.float32()): pa.float64(),
    (pa.float32(), pa.float64()): pa.float64(),
}


def of_schema(schema: Schema) -> Any:
    """The Arrow type for values of a schema."""
    match schema.type:
        case Type.STRUCT:
            return pa.struct([pa.field(field.name, of_schema(field.schema)) for field in schema.fields])
        case Type.ARRAY:
            return pa.list_(of_schema(schema.values or Schema(Type.STRING)))
        case Type.MAP:
            keys, values = schema.keys or Schema(Type.STRING), schema.values or Schema(Type.STRING)
            return pa.map_(of_schema(keys), of_schema(values))
    if schema.name == DECIMAL:
        return _decimal(schema)
    return _LOGICAL.get(schema.name or "", _SCALARS[schema.type])


def _decimal(schema: Schema) -> Any:
    parameters = dict(schema.parameters)
    try:
        scale = int(parameters["scale"])
        digits = int(parameters.get("connect.decimal.precision", DECIMAL_DIGITS))
    except (KeyError, ValueError):
        raise DataError(f"a decimal's schema has no scale that is a number: {parameters}") from None
    if not 0 <= scale <= DECIMAL_DIGITS:
        raise DataError(f"a decimal of {scale} digits behind the point; tables have 0 to {DECIMAL_DIGITS}")
    return pa.decimal128(digits if scale <= digits <= DECIMAL_DIGITS else DECIMAL_DIGITS, scale)


def of_value(value: Any) -> Any:
    """The Arrow type for a scalar without a schema; None when there is none for it."""
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        return pa.decimal128(DECIMAL_DIGITS, min(max(-exponent, 0), DECIMAL_DIGITS)) if type(exponent) is int else None
    return _INFERRED.get(type(value))


def wider(one: Any, other: Any) -> Any:
    """The type that takes the values of both; None when there is none."""
    return one if one == other else _WIDER.get((one, other)) or _WIDER.get((other, one))


def plain(kind: Any) -> Any:
    """A type of somebody else's table in the words that are used here: no large ones, no views, no names inside."""
    if pa.types.is_struct(kind):
        return pa.struct([plain_field(kind.field(index)) for index in range(kind.num_fields)])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(plain(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(plain(kind.key_type), plain(kind.item_type))
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    return kind


def plain_field(field: Any) -> Any:
    """A field likewise, without its metadata."""
    return pa.field(field.name, plain(field.type), field.nullable)


def plain_schema(schema: Any) -> Any:
    """All columns of a table likewise."""
    return pa.schema([plain_field(field) for field in schema])
