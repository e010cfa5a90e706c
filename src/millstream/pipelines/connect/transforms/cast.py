"""Values cast to other types."""

import math
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from millstream.config.setting import LIST, Check
from millstream.pipelines.connect import logical
from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.kept import PerSchema
from millstream.pipelines.connect.literals import moment_text
from millstream.pipelines.connect.options import REQUIRED, Config, Option
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, Type
from millstream.pipelines.connect.texts import as_float32, text_of
from millstream.pipelines.connect.transforms.base import SidedTransform
from millstream.pipelines.connect.transforms.shapes import (
    REPLACE_NULL_WITH_DEFAULT,
    field_value,
    require_map,
    require_struct,
    struct_like,
)

#: What may be cast to, by the names that configs have for them.
TARGETS = {kind.name.lower(): kind for kind in Type if kind not in (Type.BYTES, Type.ARRAY, Type.MAP, Type.STRUCT)}
_SOURCES = frozenset({*TARGETS.values(), Type.BYTES})
_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_FRACTION = re.compile(r"([+-]?(?:\d+\.?\d*(?:e[+-]?\d+)?|\.\d+(?:e[+-]?\d+)?|NaN|Infinity))[fd]?", re.I | re.ASCII)


def casts_of(spec: tuple[str, ...]) -> dict[str, Type] | Type:
    """What ``spec`` says: a type for each of some fields, or one for the whole; ValueError when it says nothing."""
    casts: dict[str, Type] = {}
    for part in spec:
        name, colon, kind = part.rpartition(":")
        if (target := TARGETS.get(kind.strip().lower())) is None:
            raise ValueError(f"Invalid type found in casting spec: {kind.strip()}")
        if not colon and len(spec) == 1:
            return target
        if not colon or ":" in name:
            raise ValueError(f"a cast is FIELD:TYPE, or a single TYPE: {part}")
        casts[name.strip()] = target
    if not casts:
        raise ValueError("Must specify at least one field to cast.")
    return casts


def _is_spec(spec: tuple[str, ...]) -> bool:
    try:
        casts_of(spec)
    except ValueError:
        return False
    return True


class Cast(SidedTransform):
    """Fields, or the whole value, are cast to other types; numbers that do not fit lose their upper bits."""

    SPEC = Option[tuple[str, ...]](
        "spec",
        LIST,
        default=REQUIRED,
        check=Check(f"FIELD:TYPE,… or a single TYPE, where a type is one of {', '.join(TARGETS)}", _is_spec),
        doc="FIELD:TYPE for each field to cast, or a single TYPE for the whole value.",
        importance="HIGH",
    )
    options = (SPEC, REPLACE_NULL_WITH_DEFAULT)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._casts = casts_of(config[self.SPEC])
        self._with_default = config[REPLACE_NULL_WITH_DEFAULT]
        self._schema = PerSchema(self._cast_schema)

    def change(self, schema: Schema | None, value: Any, record: Record) -> tuple[Schema | None, Any]:
        if value is None:
            return schema, value
        casts = self._casts
        if isinstance(casts, Type):
            return None if schema is None else self._schema(schema), cast(schema, value, casts)
        if schema is None:
            found = require_map(value, "cast types")
            return None, {**found, **{name: cast(None, found.get(name), kind) for name, kind in casts.items()}}
        return self._schema(schema), self._cast_struct(schema, value, casts)

    def _cast_struct(self, schema: Schema, value: Any, casts: Mapping[str, Type]) -> dict[str, Any]:
        found = require_struct(schema, value, "cast types")
        changed = {}
        for field in schema.fields:
            item = field_value(field, found, self._with_default)
            kind = casts.get(field.name)
            changed[field.name] = item if kind is None else cast(field.schema, item, kind)
        return changed

    def _cast_schema(self, schema: Schema) -> Schema:
        if isinstance(self._casts, Type):
            # A logical type's name would say of the new type what it is not.
            named = schema.name not in (DATE, TIME, TIMESTAMP, DECIMAL)
            whole = replace(_of(schema, self._casts), doc=schema.doc)
            if named:
                whole = replace(whole, name=schema.name, version=schema.version, parameters=schema.parameters)
            return whole
        fields = (
            Field(field.name, _of(field.schema, self._casts[field.name])) if field.name in self._casts else field
            for field in schema.fields
        )
        made = struct_like(schema, fields)
        default = None if schema.default is None else self._cast_struct(schema, schema.default, self._casts)
        return replace(made, optional=schema.optional, default=default)


def _of(schema: Schema, kind: Type) -> Schema:
    """The schema of that type, with the default of this one."""
    return Schema(kind, schema.optional, default=cast(schema, schema.default, kind))


def cast(schema: Schema | None, value: Any, kind: Type) -> Any:
    """The value as another type."""
    if value is None:
        return None
    if (schema is not None and schema.type not in _SOURCES) or isinstance(value, list | tuple | Mapping):
        found = schema.type.name if schema is not None else type(value).__name__
        raise DataError(f"Cast transformation does not support casting from {found}")
    if kind is Type.STRING:
        return _text(schema, value)
    if schema is not None and schema.name in _LOGICAL:
        value = _LOGICAL[schema.name](value)
    try:
        return _CASTS[kind](value, kind)
    except ValueError:
        raise DataError(f"Value ({value}) was out of range for requested data type") from None


_LOGICAL: Mapping[str | None, Callable[[Any], int]] = {
    DATE: logical.days_of,
    TIME: logical.time_ms_of,
    TIMESTAMP: logical.timestamp_ms_of,
}


def _text(schema: Schema | None, value: Any) -> str:
    if isinstance(value, date | time | datetime):
        return moment_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return b64encode(value).decode()
    return text_of(schema, value)


def _unexpected(value: Any) -> DataError:
    return DataError(f"Unexpected type in Cast transformation: {type(value).__name__}")


def _integer(value: Any, kind: Type) -> int:
    bits = _BITS[kind]
    if isinstance(value, str):
        if not _WHOLE.fullmatch(value) or not -(1 << bits - 1) <= int(value) < 1 << bits - 1:
            raise ValueError
        return int(value)
    if isinstance(value, float):
        value = _saturated(value, 64 if kind is Type.INT64 else 32)
    if not isinstance(value, int | Decimal):
        raise _unexpected(value)
    return wrapped(int(value), bits)


def _saturated(value: float, bits: int) -> int:
    """What Java makes of a fraction: nothing of what is no number, and the ends of what is too large."""
    if math.isnan(value):
        return 0
    limit = 1 << bits - 1
    if math.isinf(value):
        return limit - 1 if value > 0 else -limit
    return max(-limit, min(limit - 1, int(value)))


def wrapped(value: int, bits: int) -> int:
    """The lower bits of a number, as a number with a sign."""
    half = 1 << bits - 1
    return (value + half) % (1 << bits) - half


def _float(value: Any, kind: Type) -> float:
    if isinstance(value, str):
        match = _FRACTION.fullmatch(value.strip())
        if match is None:
            raise ValueError
        value = match[1]
    elif not isinstance(value, float | int | Decimal):
        raise _unexpected(value)
    try:
        found = float(value)
    except OverflowError:
        found = math.inf if value > 0 else -math.inf
    return as_float32(found) if kind is Type.FLOAT32 else found


def _boolean(value: Any, kind: Type) -> bool:
    if isinstance(value, str):
        return value.lower() == "true"
    return _integer(value, Type.INT64) != 0


_CASTS: Mapping[Type, Callable[[Any, Type], Any]] = {
    **dict.fromkeys(_BITS, _integer),
    Type.FLOAT32: _float,
    Type.FLOAT64: _float,
    Type.BOOLEAN: _boolean,
}
