"""Values as JSON texts: for each schema a function of its own, made once."""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from json.encoder import encode_basestring as quoted
from math import isfinite
from typing import Any

from millstream.pipelines.connect import logical
from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type
from millstream.pipelines.connect.texts import float_text, shortest_float32

#: Makes the JSON text of a value.
Encoder = Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class Rules:
    """What a converter's options say of values."""

    numeric_decimals: bool = False
    replace_null: bool = True


#: How wide whole numbers are.
BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_write = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_PLAIN = frozenset({str, int, bool, type(None)})


def plain(value: Any) -> str:
    """The JSON text of a value without a schema."""
    if _is_plain(value):
        return _write(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return f'"{b64encode(value).decode()}"'
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(plain, value)) + "]"
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return "{" + ",".join(f"{quoted(key)}:{plain(item)}" for key, item in value.items()) + "}"
        return "[" + ",".join(f"[{plain(key)},{plain(item)}]" for key, item in value.items()) + "]"
    raise DataError(f"{type(value).__name__} does not have a corresponding schema type: {value!r}")


def _is_plain(value: Any) -> bool:
    """Whether JSON is all that it is."""
    kind = type(value)
    if kind in _PLAIN:
        return True
    if kind is dict:
        return all(type(key) is str and _is_plain(item) for key, item in value.items())
    if kind is list:
        return all(map(_is_plain, value))
    return kind is float and isfinite(value)


def _float(value: float) -> str:
    return repr(value) if isfinite(value) else f'"{float_text(value)}"'


def encoder(schema: Schema | None, rules: Rules) -> Encoder:
    """What writes values of a schema."""
    if schema is None:
        return plain
    write = _LOGICAL_WRITERS[schema.name or ""](schema, rules) if schema.name in _LOGICAL_WRITERS else None
    if write is None:
        write = _WRITERS[schema.type](schema, rules)
    if schema.default is not None and rules.replace_null:
        missing: str | None = write(schema.default)
    else:
        missing = "null" if schema.optional else None

    def written(value: Any) -> str:
        if value is not None:
            return write(value)
        if missing is None:
            raise DataError("Conversion error: null value for field that is required and has no default value")
        return missing

    return written


def _wrong(schema: Schema, value: Any) -> DataError:
    return DataError(f"Invalid type for {schema.type.name}: {type(value).__name__}")


def _write_int(schema: Schema, rules: Rules) -> Encoder:
    limit = 1 << BITS[schema.type] - 1

    def write(value: Any) -> str:
        if not isinstance(value, int) or isinstance(value, bool):
            raise _wrong(schema, value)
        if not -limit <= value < limit:
            raise DataError(f"{value} is no {schema.type.name}")
        return int.__repr__(value)

    return write


def _write_float(schema: Schema, rules: Rules) -> Encoder:
    narrow = schema.type is Type.FLOAT32

    def write(value: Any) -> str:
        if not isinstance(value, float | int) or isinstance(value, bool):
            raise _wrong(schema, value)
        value = float(value)
        if narrow and isfinite(value):
            value = shortest_float32(value)
        return _float(value)

    return write


def _write_boolean(schema: Schema, rules: Rules) -> Encoder:
    def write(value: Any) -> str:
        if not isinstance(value, bool):
            raise _wrong(schema, value)
        return "true" if value else "false"

    return write


def _write_string(schema: Schema, rules: Rules) -> Encoder:
    def write(value: Any) -> str:
        if not isinstance(value, str):
            raise _wrong(schema, value)
        return quoted(value)

    return write


def _write_bytes(schema: Schema, rules: Rules) -> Encoder:
    def write(value: Any) -> str:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise _wrong(schema, value)
        return f'"{b64encode(value).decode()}"'

    return write


def _write_array(schema: Schema, rules: Rules) -> Encoder:
    item = encoder(schema.values, rules)

    def write(value: Any) -> str:
        if not isinstance(value, list | tuple):
            raise _wrong(schema, value)
        return "[" + ",".join(map(item, value)) + "]"

    return write


def _write_map(schema: Schema, rules: Rules) -> Encoder:
    key, item = encoder(schema.keys, rules), encoder(schema.values, rules)
    as_object = schema.keys is not None and schema.keys.type is Type.STRING

    def write(value: Any) -> str:
        if not isinstance(value, Mapping):
            raise _wrong(schema, value)
        if as_object:
            return "{" + ",".join(f"{key(name)}:{item(one)}" for name, one in value.items()) + "}"
        return "[" + ",".join(f"[{key(name)},{item(one)}]" for name, one in value.items()) + "]"

    return write


def _write_struct(schema: Schema, rules: Rules) -> Encoder:
    fields = [(field.name, f"{quoted(field.name)}:", encoder(field.schema, rules)) for field in schema.fields]

    def write(value: Any) -> str:
        if not isinstance(value, Mapping):
            raise _wrong(schema, value)
        get = value.get
        try:
            return "{" + ",".join([label + item(get(name)) for name, label, item in fields]) + "}"
        except DataError as error:
            raise _in_field(value, fields, error) from None

    return write


def _in_field(value: Mapping[str, Any], fields: list[tuple[str, str, Encoder]], error: DataError) -> DataError:
    """The error with the field that it is about; looked for again, so that what works costs nothing."""
    for name, _, item in fields:
        try:
            item(value.get(name))
        except DataError as found:
            return DataError(f"field {name}: {found}")
    return error


_WRITERS: Mapping[Type, Callable[[Schema, Rules], Encoder]] = {
    **dict.fromkeys(BITS, _write_int),
    Type.FLOAT32: _write_float,
    Type.FLOAT64: _write_float,
    Type.BOOLEAN: _write_boolean,
    Type.STRING: _write_string,
    Type.BYTES: _write_bytes,
    Type.ARRAY: _write_array,
    Type.MAP: _write_map,
    Type.STRUCT: _write_struct,
}


def _write_decimal(schema: Schema, rules: Rules) -> Encoder:
    scale = logical.scale_of(schema)

    def write(value: Any) -> str:
        data = logical.decimal_bytes(value, scale)
        if rules.numeric_decimals:
            return str(value)
        return f'"{b64encode(data).decode()}"'

    return write


_LOGICAL_WRITERS: Mapping[str, Callable[[Schema, Rules], Encoder]] = {
    DECIMAL: _write_decimal,
    DATE: lambda schema, rules: lambda value: str(logical.days_of(value)),
    TIME: lambda schema, rules: lambda value: str(logical.time_ms_of(value)),
    TIMESTAMP: lambda schema, rules: lambda value: str(logical.timestamp_ms_of(value)),
}
