"""What transforms ask of the shape of values, and how they make other schemas of schemas."""

from collections.abc import Iterable, Mapping
from typing import Any

from millstream.config.setting import BOOLEAN, Check
from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.options import Option
from millstream.pipelines.connect.schema import Field, Schema, Type

#: Said by most transforms of structs.
REPLACE_NULL_WITH_DEFAULT = Option[bool](
    "replace.null.with.default",
    BOOLEAN,
    default=True,
    doc="Whether a field that is missing has the default of its schema.",
)
NOT_EMPTY_LIST = Check("a list that is not empty", bool)


def _kind(value: Any) -> str:
    return "null" if value is None else type(value).__name__


def require_map(value: Any, purpose: str) -> Mapping[str, Any]:
    """The value without a schema, which has fields."""
    if not isinstance(value, Mapping):
        raise DataError(f"Only Map objects supported in absence of schema for [{purpose}], found: {_kind(value)}")
    return value


def require_struct(schema: Schema, value: Any, purpose: str) -> Mapping[str, Any]:
    """The value with a schema, which has fields."""
    if schema.type is not Type.STRUCT or not isinstance(value, Mapping):
        found = schema.type.name if schema.type is not Type.STRUCT else _kind(value)
        raise DataError(f"Only Struct objects supported for [{purpose}], found: {found}")
    return value


def field_value(field: Field, value: Mapping[str, Any], with_default: bool) -> Any:
    """A struct's field; its default where it is missing, if so wanted."""
    found = value.get(field.name)
    return field.schema.default if found is None and with_default else found


def struct_like(schema: Schema, fields: Iterable[Field]) -> Schema:
    """A struct of other fields, with the name, version, doc and parameters of this one."""
    return Schema(
        Type.STRUCT,
        name=schema.name,
        version=schema.version,
        doc=schema.doc,
        parameters=schema.parameters,
        fields=tuple(fields),
    )
