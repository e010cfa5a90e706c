"""Values of parsed JSON: for each schema a function of its own, made once."""

import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from millstream.pipelines.connect import logical
from millstream.pipelines.connect.converters.json_writing import BITS, Rules
from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type
from millstream.pipelines.connect.texts import as_float32

#: Makes a value of parsed JSON.
Decoder = Callable[[Any], Any]

#: Numbers that JSON has no digits for.
_NO_DIGITS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def _refused(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


_READ = json.JSONDecoder(parse_constant=_refused).decode
_READ_EXACTLY = json.JSONDecoder(parse_constant=_refused, parse_float=Decimal).decode


def read(text: str, exact: bool = False) -> Any:
    """The JSON of a text; with ``exact``, numbers with a point keep all their digits."""
    return _READ_EXACTLY(text) if exact else _READ(text)


def needs_digits(schema: Schema | None) -> bool:
    """Whether its numbers must be read with all their digits."""
    if schema is None:
        return False
    inner = [schema.keys, schema.values, *(field.schema for field in schema.fields)]
    return schema.name == DECIMAL or any(map(needs_digits, inner))


def decoder(schema: Schema | None, rules: Rules) -> Decoder:
    """What reads values of a schema."""
    if schema is None:
        return lambda found: found
    make = _LOGICAL_READERS.get(schema.name or "", _READERS[schema.type])
    read_value = make(schema, rules)
    default = schema.default if rules.replace_null else None
    optional, kind = schema.optional, schema.type.name

    def decoded(found: Any) -> Any:
        if found is not None:
            return read_value(found)
        if default is None and not optional:
            raise DataError(f"Invalid null value for required {kind} field")
        return default

    return decoded


def _read_int(schema: Schema, rules: Rules) -> Decoder:
    limit = 1 << BITS[schema.type] - 1

    def value_of(found: Any) -> int:
        if type(found) is not int or not -limit <= found < limit:
            raise DataError(f"{_shown(found)} is no {schema.type.name}")
        return found

    return value_of


def _shown(found: Any) -> str:
    text = json.dumps(found, default=str)
    return text if len(text) <= 100 else f"{text[:100]}…"


def _read_float(schema: Schema, rules: Rules) -> Decoder:
    narrow = schema.type is Type.FLOAT32

    def value_of(found: Any) -> float:
        if isinstance(found, str):
            found = _NO_DIGITS.get(found, found)
        if not isinstance(found, float | int | Decimal) or isinstance(found, bool):
            raise DataError(f"{_shown(found)} is no {schema.type.name}")
        try:
            value = float(found)
        except OverflowError:
            raise DataError(f"{_shown(found)} is no {schema.type.name}") from None
        return as_float32(value) if narrow else value

    return value_of


def _read_kind(kind: type[Any]) -> Callable[[Schema, Rules], Decoder]:
    def make(schema: Schema, rules: Rules) -> Decoder:
        def value_of(found: Any) -> Any:
            if type(found) is not kind:
                raise DataError(f"{_shown(found)} is no {schema.type.name}")
            return found

        return value_of

    return make


def _bytes_of(found: Any) -> bytes:
    if not isinstance(found, str):
        raise DataError(f"Invalid bytes field: {_shown(found)}")
    try:
        return b64decode(found, validate=True)
    except ValueError as error:
        raise DataError(f"Invalid bytes field: {error}") from error


def _read_array(schema: Schema, rules: Rules) -> Decoder:
    item = decoder(schema.values, rules)

    def value_of(found: Any) -> list[Any]:
        if not isinstance(found, list):
            raise DataError(f"{_shown(found)} is no ARRAY")
        return list(map(item, found))

    return value_of


def _read_map(schema: Schema, rules: Rules) -> Decoder:
    key, item = decoder(schema.keys, rules), decoder(schema.values, rules)

    def of_object(found: Any) -> dict[Any, Any]:
        if not isinstance(found, dict):
            raise DataError(f"Maps with string fields should be encoded as JSON objects, but found {_shown(found)}")
        return {name: item(one) for name, one in found.items()}

    def of_pairs(found: Any) -> dict[Any, Any]:
        if not isinstance(found, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in found):
            raise DataError(
                f"Maps with non-string fields should be encoded as JSON array of tuples, but found {_shown(found)}"
            )
        try:
            return {key(name): item(one) for name, one in found}
        except TypeError as error:
            raise DataError(f"a key of this map cannot be one: {error}") from error

    return of_object if schema.keys is not None and schema.keys.type is Type.STRING else of_pairs


def _read_struct(schema: Schema, rules: Rules) -> Decoder:
    fields = [(field.name, decoder(field.schema, rules)) for field in schema.fields]

    def value_of(found: Any) -> dict[str, Any]:
        if not isinstance(found, dict):
            raise DataError(f"Structs should be encoded as JSON objects, but found {_shown(found)}")
        value = {}
        name = ""
        try:
            for name, item in fields:
                value[name] = item(found.get(name))
        except DataError as error:
            raise DataError(f"field {name}: {error}") from None
        return value

    return value_of


_READERS: Mapping[Type, Callable[[Schema, Rules], Decoder]] = {
    **dict.fromkeys(BITS, _read_int),
    Type.FLOAT32: _read_float,
    Type.FLOAT64: _read_float,
    Type.BOOLEAN: _read_kind(bool),
    Type.STRING: _read_kind(str),
    Type.BYTES: lambda schema, rules: _bytes_of,
    Type.ARRAY: _read_array,
    Type.MAP: _read_map,
    Type.STRUCT: _read_struct,
}


def _read_decimal(schema: Schema, rules: Rules) -> Decoder:
    scale = logical.scale_of(schema)

    def value_of(found: Any) -> Decimal:
        if isinstance(found, int | float | Decimal) and not isinstance(found, bool):
            return Decimal(str(found))
        return logical.decimal_of(_bytes_of(found), scale)

    return value_of


def _whole(found: Any, wanted: str, bits: int) -> int:
    if type(found) is not int or not -(1 << bits - 1) <= found < 1 << bits - 1:
        raise DataError(
            f"Invalid type for {wanted}, underlying representation should be integer but was {_shown(found)}"
        )
    return found


def _read_date(found: Any) -> date:
    return logical.date_of(_whole(found, "Date", 32))


def _read_time(found: Any) -> time:
    return logical.time_of(_whole(found, "Time", 32))


def _read_timestamp(found: Any) -> datetime:
    return logical.timestamp_of(_whole(found, "Timestamp", 64))


_LOGICAL_READERS: Mapping[str, Callable[[Schema, Rules], Decoder]] = {
    DECIMAL: _read_decimal,
    DATE: lambda schema, rules: _read_date,
    TIME: lambda schema, rules: _read_time,
    TIMESTAMP: lambda schema, rules: _read_timestamp,
}
