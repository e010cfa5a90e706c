"""Schemas as the JSON that stands beside a payload."""

import json
from dataclasses import replace
from typing import Any

from millstream.pipelines.connect.converters.json_reading import decoder
from millstream.pipelines.connect.converters.json_writing import Rules, encoder
from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.schema import Field, Schema, Type

_TYPES = {kind.value: kind for kind in Type}


def text_of_schema(schema: Schema, rules: Rules) -> str:
    """The JSON text of a schema, its parts in the order in which Kafka writes them."""
    return "{" + ",".join(_parts(schema, rules)) + "}"


def _parts(schema: Schema, rules: Rules) -> list[str]:
    parts = [f'"type":"{schema.type.value}"']
    if schema.type is Type.ARRAY:
        parts.append(f'"items":{_inner(schema.values, rules)}')
    elif schema.type is Type.MAP:
        parts += [f'"keys":{_inner(schema.keys, rules)}', f'"values":{_inner(schema.values, rules)}']
    elif schema.type is Type.STRUCT:
        fields = [[*_parts(field.schema, rules), f'"field":{_json(field.name)}'] for field in schema.fields]
        parts.append('"fields":[' + ",".join("{" + ",".join(field) + "}" for field in fields) + "]")
    parts.append(f'"optional":{_json(schema.optional)}')
    for name, told in (("name", schema.name), ("version", schema.version), ("doc", schema.doc)):
        if told is not None:
            parts.append(f'"{name}":{_json(told)}')
    if schema.parameters:
        parts.append(f'"parameters":{_json(dict(schema.parameters))}')
    if schema.default is not None:
        parts.append(f'"default":{encoder(schema, rules)(schema.default)}')
    return parts


def _inner(schema: Schema | None, rules: Rules) -> str:
    return "null" if schema is None else text_of_schema(schema, rules)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def schema_of(found: Any, rules: Rules) -> Schema | None:
    """The schema that parsed JSON describes; None for null."""
    if found is None:
        return None
    name = found.get("type") if isinstance(found, dict) else None
    if not isinstance(name, str):
        raise DataError("Schema must contain 'type' field")
    kind = _TYPES.get(name)
    if kind is None:
        raise DataError(f"Unknown schema type: {name}")
    schema = Schema(
        kind,
        found.get("optional") is True,
        _told(found, "name", str),
        _told(found, "version", int),
        _told(found, "doc", str),
        None,
        _parameters(found.get("parameters")),
        _fields(found.get("fields"), rules) if kind is Type.STRUCT else (),
        _required(found, "keys", "Map schema did not specify the key type", rules) if kind is Type.MAP else None,
        _values(found, kind, rules),
    )
    if found.get("default") is None:
        return schema
    return replace(schema, default=decoder(schema, rules)(found["default"]))


def _told(found: dict[str, Any], name: str, kind: type[Any]) -> Any:
    """What is said, where it is of that kind; anything else is as good as nothing."""
    return found.get(name) if type(found.get(name)) is kind else None


def _parameters(found: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(found, dict):
        return ()
    if not all(isinstance(text, str) for text in found.values()):
        raise DataError("Schema parameters must have string values.")
    return tuple(found.items())


def _fields(found: Any, rules: Rules) -> tuple[Field, ...]:
    if not isinstance(found, list):
        raise DataError('Struct schema\'s "fields" argument is not an array.')
    fields = []
    for one in found:
        name = one.get("field") if isinstance(one, dict) else None
        schema = schema_of(one, rules)
        if not isinstance(name, str) or schema is None:
            raise DataError("Struct schema's field name not specified properly")
        fields.append(Field(name, schema))
    return tuple(fields)


def _values(found: dict[str, Any], kind: Type, rules: Rules) -> Schema | None:
    if kind is Type.ARRAY:
        return _required(found, "items", "Array schema did not specify the element type", rules)
    if kind is Type.MAP:
        return _required(found, "values", "Map schema did not specify the value type", rules)
    return None


def _required(found: dict[str, Any], name: str, complaint: str, rules: Rules) -> Schema:
    schema = schema_of(found.get(name), rules)
    if schema is None:
        raise DataError(complaint)
    return schema
