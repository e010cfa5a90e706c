"""Timestamps in one form made timestamps in another: texts, numbers, dates, times of day."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, time
from typing import Any

from millstream.config.setting import STRING, Check, one_of
from millstream.pipelines.connect.dates import DateFormat, is_date_format
from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.kept import PerSchema
from millstream.pipelines.connect.logical import EPOCH, in_utc, timestamp_ms_of, timestamp_of
from millstream.pipelines.connect.options import REQUIRED, Config, Option
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.schema import DATE, TIME, TIMESTAMP, Field, Schema, Type
from millstream.pipelines.connect.transforms.base import SidedTransform
from millstream.pipelines.connect.transforms.shapes import (
    REPLACE_NULL_WITH_DEFAULT,
    field_value,
    require_map,
    require_struct,
    struct_like,
)

_PURPOSE = "converting timestamp formats"
_TARGETS = ("string", "unix", "Date", "Time", "Timestamp")
#: How many of a unit are in a millisecond, or how many milliseconds in one of it.
_PER_MS = {"nanoseconds": 1_000_000, "microseconds": 1000, "milliseconds": 1}
_SECOND_MS = 1000
_NAMES = {TIMESTAMP: "Timestamp", DATE: "Date", TIME: "Time"}
_SCHEMAS: Mapping[str, Schema] = {
    "string": Schema(Type.STRING),
    "unix": Schema(Type.INT64),
    "Date": Schema(Type.INT32, name=DATE, version=1),
    "Time": Schema(Type.INT32, name=TIME, version=1),
    "Timestamp": Schema(Type.INT64, name=TIMESTAMP, version=1),
}


class TimestampConverter(SidedTransform):
    """A field, or the whole value, in another form."""

    FIELD = Option[str]("field", STRING, default="", doc="The field; the whole value when empty.", importance="HIGH")
    TARGET_TYPE = Option[str](
        "target.type",
        STRING,
        default=REQUIRED,
        check=one_of(*_TARGETS),
        doc="The form to make of it.",
        importance="HIGH",
        recommended=_TARGETS,
    )
    FORMAT = Option[str](
        "format",
        STRING,
        default="",
        check=Check("a pattern of java.text.SimpleDateFormat", is_date_format),
        doc="How texts are written and read, in the letters of java.text.SimpleDateFormat; in UTC.",
    )
    UNIX_PRECISION = Option[str](
        "unix.precision",
        STRING,
        default="milliseconds",
        check=one_of("nanoseconds", "microseconds", "milliseconds", "seconds"),
        doc="What numbers count since the epoch.",
        importance="LOW",
    )
    options = (FIELD, TARGET_TYPE, FORMAT, UNIX_PRECISION, REPLACE_NULL_WITH_DEFAULT)

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self._field = config[self.FIELD]
        self._target = config[self.TARGET_TYPE]
        self._format = DateFormat(config[self.FORMAT]) if config[self.FORMAT].strip() else None
        self._precision = config[self.UNIX_PRECISION]
        self._with_default = config[REPLACE_NULL_WITH_DEFAULT]
        self._schema = PerSchema(self._changed_schema)
        self._readers: Mapping[str, Callable[[Any], datetime]] = {
            "string": self._read_text,
            "unix": self._read_number,
            "Date": _read_moment,
            "Time": _read_moment,
            "Timestamp": _read_moment,
        }
        self._writers: Mapping[str, Callable[[datetime], Any]] = {
            "string": self._write_text,
            "unix": self._write_number,
            "Date": lambda moment: moment.date(),
            "Time": lambda moment: moment.time(),
            "Timestamp": lambda moment: moment,
        }

    @classmethod
    def check(cls, config: Config) -> Mapping[str, str]:
        if config[cls.TARGET_TYPE] == "string" and not config[cls.FORMAT].strip():
            words = "TimestampConverter requires format option to be specified when using string timestamps"
            return {cls.FORMAT.name: words}
        return {}

    def change(self, schema: Schema | None, value: Any, record: Record) -> tuple[Schema | None, Any]:
        if schema is None:
            if value is None or not self._field:
                return None, self._converted(value, None)
            found = require_map(value, _PURPOSE)
            return None, {**found, self._field: self._converted(found.get(self._field), None)}
        if not self._field:
            return replace(_SCHEMAS[self._target], optional=schema.optional), self._converted(value, schema)
        changed = None if value is None else self._struct(schema, require_struct(schema, value, _PURPOSE))
        return self._schema(schema), changed

    def _struct(self, schema: Schema, value: Mapping[str, Any]) -> dict[str, Any]:
        changed = {}
        for field in schema.fields:
            found = field_value(field, value, self._with_default)
            changed[field.name] = self._converted(found, field.schema) if field.name == self._field else found
        return changed

    def _changed_schema(self, schema: Schema) -> Schema:
        target = _SCHEMAS[self._target]
        fields = (
            Field(field.name, replace(target, optional=field.schema.optional)) if field.name == self._field else field
            for field in schema.fields
        )
        default = None if schema.default is None else self._struct(schema, schema.default)
        return replace(struct_like(schema, fields), optional=schema.optional, default=default)

    def _converted(self, value: Any, schema: Schema | None) -> Any:
        form = _form_by_schema(schema) if schema is not None else None
        if value is None:
            return None
        return self._writers[self._target](self._readers[form or _form_by_class(value)](value))

    def _read_text(self, value: Any) -> datetime:
        if not isinstance(value, str):
            raise DataError(f"Expected string timestamp to be a String, but found {type(value).__name__}")
        if self._format is None:
            raise DataError("Could not parse timestamp: there is no format to read it by")
        try:
            return timestamp_of(self._format.parse(value))
        except ValueError as error:
            raise DataError(f"Could not parse timestamp: {error}") from error

    def _read_number(self, value: Any) -> datetime:
        if not isinstance(value, int) or isinstance(value, bool):
            raise DataError(f"Expected Unix timestamp to be a Long, but found {type(value).__name__}")
        if self._precision == "seconds":
            return timestamp_of(value * _SECOND_MS)
        return timestamp_of(_toward_zero(value, _PER_MS[self._precision]))

    def _write_text(self, moment: datetime) -> str:
        assert self._format is not None, "check asks for a format"
        return self._format.format(timestamp_ms_of(moment))

    def _write_number(self, moment: datetime) -> int:
        milliseconds = timestamp_ms_of(moment)
        if self._precision == "seconds":
            return _toward_zero(milliseconds, _SECOND_MS)
        return milliseconds * _PER_MS[self._precision]


def _toward_zero(value: int, by: int) -> int:
    return value // by if value >= 0 else -(-value // by)


def _read_moment(value: Any) -> datetime:
    if isinstance(value, datetime):
        return in_utc(value)
    if isinstance(value, date):
        return datetime.combine(value, time(), UTC)
    if isinstance(value, time):
        return datetime.combine(EPOCH, value, UTC)
    raise DataError(f"Expected a date or time, but found {type(value).__name__}")


def _form_by_schema(schema: Schema) -> str:
    if schema.name in _NAMES:
        return _NAMES[schema.name]
    if schema.type is Type.STRING:
        return "string"
    if schema.type is Type.INT64:
        return "unix"
    raise DataError(f"Schema {schema.type.name} does not correspond to a known timestamp type format")


def _form_by_class(value: Any) -> str:
    if isinstance(value, date | time):
        return "Timestamp"
    if isinstance(value, int) and not isinstance(value, bool):
        return "unix"
    if isinstance(value, str):
        return "string"
    raise DataError(f"TimestampConverter does not support {type(value).__name__} objects as timestamps")
