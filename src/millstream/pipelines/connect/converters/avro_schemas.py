"""Schemas of Avro and of Connect, each made of the other."""

import re
from collections.abc import Mapping
from typing import Any

from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.logical import scale_of
from millstream.pipelines.connect.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, Type

#: As many digits as a decimal may have whose schema does not say.
_PRECISION = 64
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_NO_NAME = re.compile(r"[^A-Za-z0-9_.]", re.ASCII)

_TO_AVRO: Mapping[Type, Any] = {
    Type.INT8: {"type": "int", "connect.type": "int8"},
    Type.INT16: {"type": "int", "connect.type": "int16"},
    Type.INT32: "int",
    Type.INT64: "long",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "bytes",
}
_LOGICAL_TO_AVRO: Mapping[str | None, Any] = {
    DATE: {"type": "int", "logicalType": "date"},
    TIME: {"type": "int", "logicalType": "time-millis"},
    TIMESTAMP: {"type": "long", "logicalType": "timestamp-millis"},
}
_TO_CONNECT: Mapping[str, Schema] = {
    "boolean": Schema(Type.BOOLEAN),
    "bytes": Schema(Type.BYTES),
    "double": Schema(Type.FLOAT64),
    "enum": Schema(Type.STRING),
    "fixed": Schema(Type.BYTES),
    "float": Schema(Type.FLOAT32),
    "int": Schema(Type.INT32),
    "long": Schema(Type.INT64),
    "string": Schema(Type.STRING),
}
_INTS = {"int8": Schema(Type.INT8), "int16": Schema(Type.INT16)}
_DATE, _TIME = Schema(Type.INT32, name=DATE, version=1), Schema(Type.INT32, name=TIME, version=1)
_MOMENT = Schema(Type.INT64, name=TIMESTAMP, version=1)
_LOGICAL_TO_CONNECT: Mapping[str, Schema] = {
    "date": _DATE,
    "local-timestamp-micros": _MOMENT,
    "local-timestamp-millis": _MOMENT,
    "time-micros": _TIME,
    "time-millis": _TIME,
    "timestamp-micros": _MOMENT,
    "timestamp-millis": _MOMENT,
}


def avro_of(schema: Schema) -> Any:
    """The Avro schema of a schema; DataError where Avro has none."""
    return _avro(schema, "Record", {})


def _avro(schema: Schema, called: str, named: dict[str, Schema]) -> Any:
    found = _required(schema, called, named)
    return ["null", found] if schema.optional else found


def _required(schema: Schema, called: str, named: dict[str, Schema]) -> Any:
    if schema.name == DECIMAL:
        precision = dict(schema.parameters).get("connect.decimal.precision", str(_PRECISION))
        return {"type": "bytes", "logicalType": "decimal", "precision": int(precision), "scale": scale_of(schema)}
    if schema.name in _LOGICAL_TO_AVRO:
        return _LOGICAL_TO_AVRO[schema.name]
    if schema.type is Type.STRUCT:
        return _record(schema, called, named)
    if schema.type is Type.ARRAY:
        assert schema.values is not None
        return {"type": "array", "items": _avro(schema.values, called, named)}
    if schema.type is Type.MAP:
        if schema.keys is None or schema.keys.type is not Type.STRING or schema.values is None:
            raise DataError("an Avro map has texts for keys")
        return {"type": "map", "values": _avro(schema.values, called, named)}
    return _TO_AVRO[schema.type]


def _record(schema: Schema, called: str, named: dict[str, Schema]) -> Any:
    name = _NO_NAME.sub("_", schema.name or called)
    name = ".".join(part if _NAME.fullmatch(part) else f"_{part}" for part in name.split("."))
    while name in named and named[name] != schema:
        name += "_"
    if name in named:
        return name
    named[name] = schema
    fields = []
    for field in schema.fields:
        if not _NAME.fullmatch(field.name):
            raise DataError(f"no field of Avro may be called {field.name!r}")
        inner: dict[str, Any] = {"name": field.name, "type": _avro(field.schema, f"{name}_{field.name}", named)}
        if field.schema.optional:
            inner["default"] = None
        elif isinstance(field.schema.default, str | int | float):
            inner["default"] = field.schema.default
        fields.append(inner)
    told = {"doc": schema.doc} if schema.doc is not None else {}
    return {"type": "record", "name": name, **told, "fields": fields}


def connect_of(avro: Any) -> Schema:
    """The schema of an Avro schema; DataError where Connect has none."""
    return _connect(avro, {})


def _connect(avro: Any, named: dict[str, Schema | None]) -> Schema:
    if isinstance(avro, list):
        present = [branch for branch in avro if branch != "null"]
        if len(present) != 1:
            raise DataError("a union of several types has no schema of Connect")
        found = _connect(present[0], named)
        return found.as_optional() if len(present) < len(avro) else found
    if isinstance(avro, str):
        if avro in _TO_CONNECT:
            return _TO_CONNECT[avro]
        if named.get(avro) is None:
            raise DataError(f"{avro!r} is no type, or one that holds itself")
        known = named[avro]
        assert known is not None
        return known
    kind = avro["type"]
    if isinstance(kind, dict | list):
        return _connect(kind, named)
    if kind == "record":
        return _struct(avro, named)
    if kind == "array":
        return Schema(Type.ARRAY, values=_connect(avro["items"], named))
    if kind == "map":
        return Schema(Type.MAP, keys=Schema(Type.STRING), values=_connect(avro["values"], named))
    schema = _logical(avro) or _INTS.get(avro.get("connect.type", "")) or _connect(kind, named)
    if kind in ("enum", "fixed"):
        named[_full_name(avro)] = named[avro["name"]] = schema
    return schema


def _logical(avro: Mapping[str, Any]) -> Schema | None:
    logical = avro.get("logicalType")
    if logical == "decimal":
        parameters = (("scale", str(avro.get("scale", 0))), ("connect.decimal.precision", str(avro["precision"])))
        return Schema(Type.BYTES, name=DECIMAL, version=1, parameters=parameters)
    if logical == "uuid":
        raise DataError("logicalType uuid has no schema of Connect; leave it out, and the text remains")
    return _LOGICAL_TO_CONNECT.get(logical) if isinstance(logical, str) else None


def _full_name(avro: Mapping[str, Any]) -> str:
    space = avro.get("namespace")
    return f"{space}.{avro['name']}" if space and "." not in avro["name"] else str(avro["name"])


def _struct(avro: Mapping[str, Any], named: dict[str, Schema | None]) -> Schema:
    name = _full_name(avro)
    named[name] = named[avro["name"]] = None
    fields = []
    for field in avro["fields"]:
        inner = _connect(field["type"], named)
        fields.append(Field(field["name"], inner))
    schema = Schema(Type.STRUCT, name=name, doc=avro.get("doc"), fields=tuple(fields))
    named[name] = named[avro["name"]] = schema
    return schema
