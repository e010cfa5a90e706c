"""What transforms ask of the shape of values, and how they make other schemas of schemas."""

from collections.abc import Callable, Iterable, Mapping
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

_CACHED_MAX = 16


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


class Remade:
    """Schemas made of schemas, once each.

    They are known by identity, for to hash a schema costs more than to transform a record.
    """

    def __init__(self, make: Callable[[Schema], Schema]) -> None:
        self._make = make
        self._made: dict[int, tuple[Schema, Schema]] = {}

    def __call__(self, schema: Schema) -> Schema:
        """What becomes of the schema."""
        found = self._made.get(id(schema))
        if found is None:
            if len(self._made) >= _CACHED_MAX:
                self._made.clear()
            # The schema is kept beside it, so that no other takes its identity.
            found = self._made[id(schema)] = (schema, self._make(schema))
        return found[1]
