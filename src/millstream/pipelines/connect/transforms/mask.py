"""Fields whose contents nobody is to see."""

from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

from millstream.config.setting import LIST, NOT_EMPTY, STRING
from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.logical import EPOCH
from millstream.pipelines.connect.options import REQUIRED, Config, Option
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.schema import Field, Schema, Type
from millstream.pipelines.connect.texts import as_float32
from millstream.pipelines.connect.transforms.base import SidedTransform
from millstream.pipelines.connect.transforms.cast import wrapped
from millstream.pipelines.connect.transforms.shapes import (
    NOT_EMPTY_LIST,
    REPLACE_NULL_WITH_DEFAULT,
    field_value,
    require_map,
    require_struct,
)

#: What stands for a value of each class when nothing else is said; a subclass comes before its base.
_NOTHING: tuple[tuple[type[Any], Any], ...] = (
    (bool, False),
    (int, 0),
    (float, 0.0),
    (Decimal, Decimal(0)),
    (datetime, EPOCH),
    (date, EPOCH.date()),
    (time, time()),
    (str, ""),
)
_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32}


class MaskField(SidedTransform):
    """Fields become zero, empty, or what is said."""

    FIELDS = Option[tuple[str, ...]](
        "fields", LIST, default=REQUIRED, check=NOT_EMPTY_LIST, doc="The fields to mask.", importance="HIGH"
    )
    REPLACEMENT = Option[str | None](
        "replacement",
        STRING,
        default=None,
        check=NOT_EMPTY,
        doc="What they become, numbers and texts alike; zero or empty when not given.",
        importance="LOW",
    )
    options = (FIELDS, REPLACEMENT, REPLACE_NULL_WITH_DEFAULT)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._names = config[self.FIELDS]
        self._replacement = config[self.REPLACEMENT]
        self._with_default = config[REPLACE_NULL_WITH_DEFAULT]

    def change(self, schema: Schema | None, value: Any, record: Record) -> tuple[Schema | None, Any]:
        if schema is None:
            found = require_map(value, "mask fields")
            return None, {**found, **{name: self._masked(None, found.get(name)) for name in self._names}}
        found = require_struct(schema, value, "mask fields")
        return schema, {field.name: self._field(field, found) for field in schema.fields}

    def _field(self, field: Field, value: Mapping[str, Any]) -> Any:
        found = field_value(field, value, self._with_default)
        return self._masked(field.schema, found) if field.name in self._names else found

    def _masked(self, schema: Schema | None, value: Any) -> Any:
        if value is None:
            return None
        if self._replacement is not None:
            return _replaced(schema, value, self._replacement)
        for kind, nothing in _NOTHING:
            if isinstance(value, kind):
                return nothing
        if isinstance(value, list | tuple):
            return []
        if isinstance(value, Mapping) and (schema is None or schema.type is Type.MAP):
            return {}
        raise DataError(f"Cannot mask value of type: {type(value).__name__}")


def _replaced(schema: Schema | None, value: Any, text: str) -> Any:
    if isinstance(value, str):
        return text
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise DataError(f"Cannot mask value of type {type(value).__name__} with custom replacement.")
    try:
        number = Decimal(text)
        whole = int(number)
    except (InvalidOperation, ValueError, OverflowError):
        raise DataError(f"Unable to convert {text} (String) to a number") from None
    if isinstance(value, Decimal):
        return number
    if isinstance(value, float):
        narrow = schema is not None and schema.type is Type.FLOAT32
        return as_float32(float(number)) if narrow else float(number)
    return wrapped(whole, _BITS.get(schema.type, 64) if schema is not None else 64)
