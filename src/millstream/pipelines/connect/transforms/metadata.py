"""Names and versions of schemas."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from millstream.config.setting import INT, STRING
from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.kept import PerSchema
from millstream.pipelines.connect.options import Config, Option
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.schema import Schema, Type
from millstream.pipelines.connect.transforms.base import SidedTransform
from millstream.pipelines.connect.transforms.shapes import REPLACE_NULL_WITH_DEFAULT, field_value


class SetSchemaMetadata(SidedTransform):
    """The schema gets a name, a version, or both."""

    NAME = Option[str | None]("schema.name", STRING, default=None, doc="The schema's name.", importance="HIGH")
    VERSION = Option[int | None]("schema.version", INT, default=None, doc="The schema's version.", importance="HIGH")
    options = (NAME, VERSION, REPLACE_NULL_WITH_DEFAULT)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        told = {"name": config[self.NAME], "version": config[self.VERSION]}
        changes: dict[str, Any] = {what: said for what, said in told.items() if said is not None}
        self._with_default = config[REPLACE_NULL_WITH_DEFAULT]
        self._schema = PerSchema(lambda schema: replace(schema, **changes))

    @classmethod
    def check(cls, config: Config) -> Mapping[str, str]:
        if config[cls.NAME] is None and config[cls.VERSION] is None:
            return {cls.NAME.name: "Neither schema name nor version configured"}
        return {}

    def change(self, schema: Schema | None, value: Any, record: Record) -> tuple[Schema | None, Any]:
        if schema is None:
            if value is None:
                return None, None
            raise DataError("Schema required for [updating schema metadata]")
        if schema.type is Type.STRUCT and isinstance(value, Mapping):
            value = {field.name: field_value(field, value, self._with_default) for field in schema.fields}
        return self._schema(schema), value
