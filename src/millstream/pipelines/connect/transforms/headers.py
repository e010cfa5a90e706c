"""Headers added, made of fields, and dropped."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from millstream.config.setting import LIST, STRING, one_of
from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.kept import PerSchema
from millstream.pipelines.connect.literals import parse_literal
from millstream.pipelines.connect.options import REQUIRED, Config, Option
from millstream.pipelines.connect.record import Header, Record
from millstream.pipelines.connect.schema import Field, Schema
from millstream.pipelines.connect.transforms.base import Side, SidedTransform, Transform
from millstream.pipelines.connect.transforms.shapes import (
    NOT_EMPTY_LIST,
    REPLACE_NULL_WITH_DEFAULT,
    field_value,
    require_map,
    require_struct,
    struct_like,
)


class DropHeaders(Transform):
    """Headers of these names are dropped."""

    HEADERS = Option[tuple[str, ...]](
        "headers",
        LIST,
        default=REQUIRED,
        check=NOT_EMPTY_LIST,
        doc="The names of the headers to drop.",
        importance="HIGH",
    )
    options = (HEADERS,)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._names = frozenset(config[self.HEADERS])

    def apply(self, record: Record) -> Record:
        return replace(record, headers=[header for header in record.headers if header.name not in self._names])


class InsertHeader(Transform):
    """Every record gets a header."""

    HEADER = Option[str]("header", STRING, default=REQUIRED, doc="The name of the header.", importance="HIGH")
    VALUE = Option[str](
        "value.literal",
        STRING,
        default=REQUIRED,
        doc="Its value: a number, true, [1,2] and the like are more than text.",
        importance="HIGH",
    )
    options = (HEADER, VALUE)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._name = config[self.HEADER]
        self._schema, self._value = parse_literal(config[self.VALUE])

    def apply(self, record: Record) -> Record:
        return replace(record, headers=[*record.headers, Header(self._name, self._value, self._schema)])


class HeaderFrom(SidedTransform):
    """Fields become headers."""

    FIELDS = Option[tuple[str, ...]](
        "fields",
        LIST,
        default=REQUIRED,
        check=NOT_EMPTY_LIST,
        doc="The fields whose values become headers.",
        importance="HIGH",
    )
    HEADERS = Option[tuple[str, ...]](
        "headers",
        LIST,
        default=REQUIRED,
        check=NOT_EMPTY_LIST,
        doc="The names of the headers, in the order of the fields.",
        importance="HIGH",
    )
    OPERATION = Option[str](
        "operation",
        STRING,
        default=REQUIRED,
        check=one_of("move", "copy"),
        doc="Whether the fields are moved out of the value, or copied.",
        importance="HIGH",
        recommended=("move", "copy"),
    )
    options = (FIELDS, HEADERS, OPERATION, REPLACE_NULL_WITH_DEFAULT)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._names = config[self.FIELDS]
        self._pairs = list(zip(config[self.FIELDS], config[self.HEADERS], strict=True))
        self._moves = config[self.OPERATION] == "move"
        self._with_default = config[REPLACE_NULL_WITH_DEFAULT]
        self._purpose = f"header {config[self.OPERATION]}"
        self._schema = PerSchema(
            lambda schema: struct_like(schema, (field for field in schema.fields if field.name not in self._names))
        )

    @classmethod
    def check(cls, config: Config) -> Mapping[str, str]:
        if len(config[cls.FIELDS]) == len(config[cls.HEADERS]):
            return {}
        return {"headers": "'fields' config must have the same number of elements as 'headers' config."}

    def apply(self, record: Record) -> Record:
        changed = super().apply(record)
        assert changed is not None
        of_key = self.side is Side.KEY
        schema, value = (record.key_schema, record.key) if of_key else (record.value_schema, record.value)
        return replace(changed, headers=[*record.headers, *self._headers(schema, value)])

    def change(self, schema: Schema | None, value: Any, record: Record) -> tuple[Schema | None, Any]:
        if schema is None:
            found = require_map(value, self._purpose)
            kept = {name: item for name, item in found.items() if name not in self._names} if self._moves else found
            return None, dict(kept)
        found = require_struct(schema, value, self._purpose)
        if not self._moves:
            return schema, value
        left = self._schema(schema)
        return left, {field.name: field_value(field, found, self._with_default) for field in left.fields}

    def _headers(self, schema: Schema | None, value: Mapping[str, Any]) -> list[Header]:
        if schema is None:
            return [Header(header, value.get(name)) for name, header in self._pairs]
        headers = []
        for name, header in self._pairs:
            inner = schema.field(name)
            if inner is None:
                raise DataError(f"Field does not exist: {name}")
            headers.append(Header(header, field_value(Field(name, inner), value, self._with_default), inner))
        return headers
