"""Nested fields laid out in one row."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from millstream.config.setting import STRING
from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.kept import PerSchema
from millstream.pipelines.connect.options import Config, Option
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.schema import Field, Schema, Type
from millstream.pipelines.connect.transforms.base import SidedTransform
from millstream.pipelines.connect.transforms.shapes import (
    field_value,
    require_map,
    require_struct,
    struct_like,
)


class Flatten(SidedTransform):
    """Fields within fields become fields of the value, named by the way to them; arrays stay as they are."""

    DELIMITER = Option[str]("delimiter", STRING, default=".", doc="What stands between the names on the way.")
    options = (DELIMITER,)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._delimiter = config[self.DELIMITER]
        self._schema = PerSchema(self._flat_schema)

    def change(self, schema: Schema | None, value: Any, record: Record) -> tuple[Schema | None, Any]:
        if value is None:
            return schema, value
        row: dict[str, Any] = {}
        if schema is None:
            self._lay_map(require_map(value, "flattening"), "", row)
            return None, row
        self._lay_struct(schema, require_struct(schema, value, "flattening"), "", row)
        return self._schema(schema), row

    def _name(self, prefix: str, name: str) -> str:
        return f"{prefix}{self._delimiter}{name}" if prefix else name

    def _lay_map(self, value: Mapping[str, Any], prefix: str, row: dict[str, Any]) -> None:
        for key, item in value.items():
            name = self._name(prefix, key)
            if isinstance(item, Mapping):
                self._lay_map(item, name, row)
            elif item is None or isinstance(item, str | int | float | bytes | list | tuple):
                row[name] = item
            else:
                raise DataError(
                    f"Flatten transformation was passed a value of type {type(item).__name__} which is not supported "
                    "by Connect's data API"
                )

    def _lay_struct(self, schema: Schema, value: Mapping[str, Any], prefix: str, row: dict[str, Any]) -> None:
        for field in schema.fields:
            name = self._name(prefix, field.name)
            item = field_value(field, value, True)
            if field.schema.type is Type.STRUCT:
                self._lay_struct(field.schema, item or {}, name, row)
            else:
                row[name] = item

    def _flat_schema(self, schema: Schema) -> Schema:
        return struct_like(schema, self._flat_fields(schema, "", schema.optional, schema.default))

    def _flat_fields(self, schema: Schema, prefix: str, optional: bool, default: Any) -> list[Field]:
        """A field is optional when one on the way to it is, and its default may be told by one on the way."""
        fields: list[Field] = []
        for field in schema.fields:
            name, inner = self._name(prefix, field.name), field.schema
            of_field = inner.default
            if of_field is None and default is not None:
                of_field = field_value(field, default, True)
            if inner.type is Type.STRUCT:
                fields += self._flat_fields(inner, name, optional or inner.optional, of_field)
            elif inner.type is Type.MAP:
                raise DataError(
                    f"Flatten transformation does not support MAP for record with schemas (for field {name})."
                )
            else:
                fields.append(Field(name, replace(inner, optional=optional or inner.optional, default=of_field)))
        return fields
