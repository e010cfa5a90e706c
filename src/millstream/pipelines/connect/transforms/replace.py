"""Fields left out, kept, and renamed."""

from typing import Any

from millstream.config.setting import LIST, Check
from millstream.pipelines.connect.kept import PerSchema
from millstream.pipelines.connect.options import Config, Option
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.schema import Field, Schema
from millstream.pipelines.connect.transforms.base import SidedTransform
from millstream.pipelines.connect.transforms.shapes import (
    REPLACE_NULL_WITH_DEFAULT,
    field_value,
    require_map,
    require_struct,
    struct_like,
)

_PAIRS = Check("pairs, as in OLD:NEW,…", lambda pairs: all(len(pair.split(":")) == 2 for pair in pairs))


class ReplaceField(SidedTransform):
    """Fields that are left out or kept, and what others are called from now on."""

    EXCLUDE = Option[tuple[str, ...]](
        "exclude", LIST, default=(), doc="The fields to leave out, even where they are to be kept."
    )
    INCLUDE = Option[tuple[str, ...]]("include", LIST, default=(), doc="The fields to keep; all when empty.")
    RENAMES = Option[tuple[str, ...]]("renames", LIST, default=(), check=_PAIRS, doc="OLD:NEW for fields to rename.")
    options = (EXCLUDE, INCLUDE, RENAMES, REPLACE_NULL_WITH_DEFAULT)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._exclude, self._include = frozenset(config[self.EXCLUDE]), frozenset(config[self.INCLUDE])
        self._names: dict[str, str] = dict(pair.split(":") for pair in config[self.RENAMES])
        self._with_default = config[REPLACE_NULL_WITH_DEFAULT]
        self._schema = PerSchema(self._changed_schema)

    def _keeps(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def _name(self, name: str) -> str:
        return self._names.get(name, name)

    def _changed_schema(self, schema: Schema) -> Schema:
        kept = (field for field in schema.fields if self._keeps(field.name))
        return struct_like(schema, (Field(self._name(field.name), field.schema) for field in kept))

    def change(self, schema: Schema | None, value: Any, record: Record) -> tuple[Schema | None, Any]:
        purpose = "field replacement"
        if value is None:
            return schema, value
        if schema is None:
            items = require_map(value, purpose).items()
            return None, {self._name(name): item for name, item in items if self._keeps(name)}
        found = require_struct(schema, value, purpose)
        kept = (field for field in schema.fields if self._keeps(field.name))
        changed = {self._name(field.name): field_value(field, found, self._with_default) for field in kept}
        return self._schema(schema), changed
