"""Fields taken out of values, values put into fields, and keys made of fields."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from millstream.config.setting import LIST, STRING
from millstream.pipelines.connect.errors import DataError, Misconfigured
from millstream.pipelines.connect.kept import PerSchema
from millstream.pipelines.connect.options import REQUIRED, Config, Option
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.schema import Field, Schema, Type
from millstream.pipelines.connect.transforms.base import SidedTransform, Transform
from millstream.pipelines.connect.transforms.paths import FIELD_SYNTAX_VERSION, Path
from millstream.pipelines.connect.transforms.shapes import (
    NOT_EMPTY_LIST,
    REPLACE_NULL_WITH_DEFAULT,
    field_value,
    require_map,
    require_struct,
)


class ExtractField(SidedTransform):
    """The value becomes one of its fields."""

    FIELD = Option[str]("field", STRING, default=REQUIRED, doc="The field to take out.")
    options = (FIELD, REPLACE_NULL_WITH_DEFAULT, FIELD_SYNTAX_VERSION)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._path = Path(config[self.FIELD], config[FIELD_SYNTAX_VERSION])
        self._with_default = config[REPLACE_NULL_WITH_DEFAULT]

    @classmethod
    def check(cls, config: Config) -> Mapping[str, str]:
        try:
            Path(config[cls.FIELD], config[FIELD_SYNTAX_VERSION])
        except Misconfigured as error:
            return {cls.FIELD.name: str(error)}
        return {}

    def change(self, schema: Schema | None, value: Any, record: Record) -> tuple[Schema | None, Any]:
        purpose = "field extraction"
        if schema is None:
            return None, None if value is None else self._path.in_map(require_map(value, purpose))
        inner = self._path.field_in(schema)
        if value is not None:
            require_struct(schema, value, purpose)
        if inner is None:
            raise DataError(f"Unknown field: {self._path.text}")
        return inner, None if value is None else self._path.in_struct(schema, value, self._with_default)


class HoistField(SidedTransform):
    """The value becomes the only field of another."""

    FIELD = Option[str]("field", STRING, default=REQUIRED, doc="The name of the field that is made.")
    options = (FIELD,)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        name = self._name = config[self.FIELD]
        self._schema = PerSchema(lambda schema: Schema(Type.STRUCT, fields=(Field(name, schema),)))

    def change(self, schema: Schema | None, value: Any, record: Record) -> tuple[Schema | None, Any]:
        return None if schema is None else self._schema(schema), {self._name: value}


class ValueToKey(Transform):
    """The key is made of fields of the value."""

    FIELDS = Option[tuple[str, ...]](
        "fields",
        LIST,
        default=REQUIRED,
        check=NOT_EMPTY_LIST,
        doc="The fields of the value that make the key.",
        importance="HIGH",
    )
    options = (FIELDS, REPLACE_NULL_WITH_DEFAULT)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._names = config[self.FIELDS]
        self._with_default = config[REPLACE_NULL_WITH_DEFAULT]
        self._schema = PerSchema(self._key_schema)

    def _key_schema(self, schema: Schema) -> Schema:
        fields = []
        for name in self._names:
            inner = schema.field(name)
            if inner is None:
                raise DataError(f"Field does not exist: {name}")
            fields.append(Field(name, inner))
        return Schema(Type.STRUCT, fields=tuple(fields))

    def apply(self, record: Record) -> Record:
        purpose = "copying fields from value to key"
        if record.value_schema is None:
            found = require_map(record.value, purpose)
            return replace(record, key_schema=None, key={name: found.get(name) for name in self._names})
        value = require_struct(record.value_schema, record.value, purpose)
        schema = self._schema(record.value_schema)
        key = {field.name: field_value(field, value, self._with_default) for field in schema.fields}
        return replace(record, key_schema=schema, key=key)
