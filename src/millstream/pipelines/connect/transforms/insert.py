"""Fields inserted that tell of the record."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from millstream.config.setting import STRING
from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.kept import PerSchema
from millstream.pipelines.connect.logical import timestamp_of
from millstream.pipelines.connect.options import Config, Option
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.schema import TIMESTAMP, Field, Schema, Type
from millstream.pipelines.connect.transforms.base import SidedTransform
from millstream.pipelines.connect.transforms.shapes import (
    REPLACE_NULL_WITH_DEFAULT,
    field_value,
    require_map,
    require_struct,
    struct_like,
)


def _field(name: str, doc: str) -> Option[str | None]:
    return Option[str | None](
        name, STRING, default=None, doc=f"The field for {doc}; with ! behind its name it is required, else optional."
    )


TOPIC = _field("topic.field", "the topic")
PARTITION = _field("partition.field", "the partition")
OFFSET = _field("offset.field", "the offset, which only records on their way to a sink have")
TIMESTAMP_FIELD = _field("timestamp.field", "the timestamp")
STATIC = _field("static.field", "a text that is always the same")
STATIC_VALUE = Option[str | None]("static.value", STRING, default=None, doc="That text.")

#: The schema of each, where it is required.
_SCHEMAS: Mapping[Option[Any], Schema] = {
    TOPIC: Schema(Type.STRING),
    PARTITION: Schema(Type.INT32),
    OFFSET: Schema(Type.INT64),
    TIMESTAMP_FIELD: Schema(Type.INT64, name=TIMESTAMP, version=1),
    STATIC: Schema(Type.STRING),
}


@dataclass(frozen=True, slots=True)
class _Inserted:
    """A field that is inserted."""

    what: Option[Any]
    field: Field


def _inserted(what: Option[Any], text: str) -> _Inserted:
    schema = _SCHEMAS[what]
    if text.endswith("!"):
        return _Inserted(what, Field(text[:-1], schema))
    return _Inserted(what, Field(text.removesuffix("?"), schema.as_optional()))


class InsertField(SidedTransform):
    """Fields that tell of the record's place, or a fixed text."""

    options = (TOPIC, PARTITION, OFFSET, TIMESTAMP_FIELD, STATIC, STATIC_VALUE, REPLACE_NULL_WITH_DEFAULT)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._inserted = [_inserted(what, config[what]) for what in _SCHEMAS if config[what] is not None]
        self._static = config[STATIC_VALUE]
        self._with_default = config[REPLACE_NULL_WITH_DEFAULT]
        self._schema = PerSchema(
            lambda schema: struct_like(schema, (*schema.fields, *(one.field for one in self._inserted)))
        )

    @classmethod
    def check(cls, config: Config) -> Mapping[str, str]:
        if all(config[what] is None for what in _SCHEMAS):
            return {TOPIC.name: "No field insertion configured"}
        if config[STATIC] is not None and config[STATIC_VALUE] is None:
            return {STATIC_VALUE.name: f"No value specified for static field: {config[STATIC]}"}
        return {}

    def change(self, schema: Schema | None, value: Any, record: Record) -> tuple[Schema | None, Any]:
        purpose = "field insertion"
        if value is None:
            return schema, value
        if schema is None:
            return None, {**require_map(value, purpose), **self._told(record, with_schema=False)}
        found = require_struct(schema, value, purpose)
        changed = {field.name: field_value(field, found, self._with_default) for field in schema.fields}
        return self._schema(schema), {**changed, **self._told(record, with_schema=True)}

    def _told(self, record: Record, with_schema: bool) -> dict[str, Any]:
        """What is known of the record; without a schema, what is not known is left out."""
        told: dict[str, Any] = {}
        for one in self._inserted:
            found = self._of(one.what, record)
            if one.what is TIMESTAMP_FIELD and found is not None and with_schema:
                found = timestamp_of(found)
            if found is not None or with_schema:
                told[one.field.name] = found
        return told

    def _of(self, what: Option[Any], record: Record) -> Any:
        if what is OFFSET and record.offset is None:
            raise DataError("Only SinkRecord supported for [field insertion], found: SourceRecord")
        return {
            TOPIC: record.topic,
            PARTITION: record.partition,
            OFFSET: record.offset,
            TIMESTAMP_FIELD: record.timestamp_ms,
            STATIC: self._static,
        }[what]
