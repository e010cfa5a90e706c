"""What a record means to a table: which table, a row or the end of one, under which key.  Pure."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.schema import (
    BOOLEAN,
    BYTES,
    DATE,
    DECIMAL,
    FLOAT64,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    Schema,
    Type,
    decimal,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TOPIC = "${topic}"
#: The columns of a key that is the record's place in its topic.
PLACE_COLUMNS = ("__connect_topic", "__connect_partition", "__connect_offset")
PLACE_SCHEMAS = (STRING, Schema(Type.INT32), INT64)
#: What change capture has for a large value that an update left alone, as text, bytes or in an array.
UNAVAILABLE = "__debezium_unavailable_value"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a sink's config says of rows."""

    #: none | kafka | record_key | record_value.
    key_mode: str = "none"
    key_fields: tuple[str, ...] = ()
    #: The value's fields that are written; all when empty.
    fields: tuple[str, ...] = ()
    deletes: bool = False
    #: Whether a record changes the row of its key, which keeps what the record does not have.
    changes: bool = False
    #: SCHEMA.TABLE or TABLE, with ``${topic}`` in it.
    table_format: str = TOPIC


@dataclass(frozen=True, slots=True)
class Cell:
    """A value for a column; its schema says the column's type where it must be made."""

    schema: Schema
    value: Any


@dataclass(frozen=True, slots=True)
class Row:
    """A record as a row: its key's columns first; ``is_end`` when the row of that key is to go."""

    record: Record
    #: Schema, if it was named, and table.
    table: tuple[str | None, str]
    cells: Mapping[str, Cell]
    key: tuple[str, ...]
    is_end: bool = False
    #: Whether there are values that only the row has.
    is_partial: bool = False


def table_of(topic: str, table_format: str) -> tuple[str | None, str]:
    """The table of a topic; only the format's own dots part a schema from its table, for topics have dots too."""
    schema, dot, table = table_format.partition(".")
    if not dot:
        return None, schema.replace(TOPIC, topic)
    return schema.replace(TOPIC, topic), table.replace(TOPIC, topic)


def row_of(record: Record, shape: Shape) -> Row | None:
    """What to write for the record, None for nothing; a DataError when it has not what the config asks for."""
    table = table_of(record.topic, shape.table_format)
    value, schema, is_end = _unwrapped(record)
    key = _key(record, value, schema, shape)
    if is_end:
        if not shape.deletes:
            raise DataError("a record without a value, and delete.enabled is false")
        return Row(record, table, key, tuple(key), is_end=True)
    if value is None:
        return None
    chosen = {
        name: cell
        for name, cell in _cells(value, schema, "value").items()
        if name not in key and (not shape.fields or name in shape.fields)
    }
    known = {name: cell for name, cell in chosen.items() if not (shape.changes and _is_unavailable(cell.value))}
    if chosen and not known:
        return None
    return Row(record, table, {**key, **known}, tuple(key), is_partial=len(known) < len(chosen))


def _is_unavailable(value: Any) -> bool:
    return value in (UNAVAILABLE, UNAVAILABLE.encode(), [UNAVAILABLE])


def _unwrapped(record: Record) -> tuple[Any, Schema | None, bool]:
    """The row's value and schema, and whether the row is to end.  An envelope of change capture is opened."""
    value, schema = record.value, record.value_schema
    if value is None:
        return None, None, True
    is_envelope = schema.name is not None and schema.name.endswith(".Envelope") if schema else _is_envelope(value)
    if not is_envelope:
        return value, schema, False
    side = "before" if value.get("op") == "d" else "after"
    return value.get(side), schema.field(side) if schema else None, value.get("op") == "d"


def _is_envelope(value: Any) -> bool:
    return isinstance(value, dict) and {"before", "after", "source", "op"} <= value.keys()


def _key(record: Record, value: Any, schema: Schema | None, shape: Shape) -> dict[str, Cell]:
    """The key's columns, none of them null."""
    if shape.key_mode == "none":
        return {}
    if shape.key_mode == "kafka":
        place = (record.origin or record.topic, record.partition, record.offset)
        names = shape.key_fields or PLACE_COLUMNS
        return {name: Cell(kind, part) for name, kind, part in zip(names, PLACE_SCHEMAS, place, strict=True)}
    if shape.key_mode == "record_key":
        key = _key_cells(record, shape)
    else:
        key = _cells(value, schema, "value")
    if shape.key_fields:
        if missing := [name for name in shape.key_fields if name not in key]:
            raise DataError(f"the {shape.key_mode.removeprefix('record_')} has no field {missing[0]!r} for pk.fields")
        key = {name: key[name] for name in shape.key_fields}
    if empty := [name for name, cell in key.items() if cell.value is None]:
        raise DataError(f"the key's field {empty[0]!r} is null")
    return key


def _key_cells(record: Record, shape: Shape) -> dict[str, Cell]:
    if record.key is None:
        raise DataError("the record has no key, and pk.mode=record_key")
    if isinstance(record.key, dict):
        return _cells(record.key, record.key_schema, "key")
    if len(shape.key_fields) != 1:
        raise DataError("the key is no struct, so pk.fields must name the one column for it")
    return {shape.key_fields[0]: Cell(record.key_schema or schema_of(record.key), record.key)}


def _cells(value: Any, schema: Schema | None, what: str) -> dict[str, Cell]:
    if not isinstance(value, dict):
        raise DataError(f"the {what} is no struct but {type(value).__name__}")
    if schema is not None and schema.type is Type.STRUCT:
        return {field.name: Cell(field.schema, value.get(field.name)) for field in schema.fields}
    return {str(name): Cell(schema_of(item), item) for name, item in value.items()}


# Columns' types.

#: Of values that came without a schema; the first that fits counts.
GUESSES: Sequence[tuple[type, Schema]] = (
    (bool, BOOLEAN),
    (int, INT64),
    (float, FLOAT64),
    (str, STRING),
    (bytes, BYTES),
    (Decimal, decimal(0)),
    (datetime, Schema(Type.INT64, name=TIMESTAMP)),
    (date, Schema(Type.INT32, name=DATE)),
    (time, Schema(Type.INT32, name=TIME)),
)
#: Objects and lists without a schema are kept as JSON.
ANYTHING = Schema(Type.MAP, optional=True)


def schema_of(value: Any) -> Schema:
    """What a value without a schema looks like."""
    return next((schema.as_optional() for kind, schema in GUESSES if isinstance(value, kind)), ANYTHING)


NAMED_TYPES = {
    DECIMAL: "NUMERIC",
    DATE: "DATE",
    TIME: "TIME",
    TIMESTAMP: "TIMESTAMP",
    "io.debezium.data.Json": "JSONB",
    "io.debezium.data.Uuid": "UUID",
    "io.debezium.time.Date": "DATE",
    "io.debezium.time.MicroTime": "TIME",
    "io.debezium.time.MicroTimestamp": "TIMESTAMP",
    "io.debezium.time.Time": "TIME",
    "io.debezium.time.Timestamp": "TIMESTAMP",
    "io.debezium.time.ZonedTimestamp": "TIMESTAMPTZ",
    "io.debezium.data.VariableScaleDecimal": "NUMERIC",
}
TYPES = {
    Type.INT8: "SMALLINT",
    Type.INT16: "SMALLINT",
    Type.INT32: "INT",
    Type.INT64: "BIGINT",
    Type.FLOAT32: "REAL",
    Type.FLOAT64: "DOUBLE PRECISION",
    Type.BOOLEAN: "BOOLEAN",
    Type.STRING: "TEXT",
    Type.BYTES: "BYTEA",
    Type.MAP: "JSONB",
    Type.STRUCT: "JSONB",
}


def type_of(schema: Schema) -> str:
    """The type of a column that is made for such values."""
    if schema.name in NAMED_TYPES:
        return NAMED_TYPES[schema.name]
    if schema.type is Type.ARRAY:
        element = type_of(schema.values) if schema.values is not None else "JSONB"
        return "JSONB" if element == "JSONB" else element.removesuffix("[]") + "[]"
    return TYPES[schema.type]


def _of_day(micros: int) -> time:
    return (EPOCH + timedelta(microseconds=micros)).time()


def _variable(value: Mapping[str, Any]) -> Decimal:
    return Decimal(f"{int.from_bytes(value['value'], 'big', signed=True)}E{-value['scale']}")


#: How Debezium's plain numbers are read.
READ: dict[str, Callable[[Any], Any]] = {
    "io.debezium.time.Date": lambda days: date(1970, 1, 1) + timedelta(days=days),
    "io.debezium.time.Timestamp": lambda ms: EPOCH + timedelta(milliseconds=ms),
    "io.debezium.time.MicroTimestamp": lambda micros: EPOCH + timedelta(microseconds=micros),
    "io.debezium.time.Time": lambda ms: _of_day(ms * 1000),
    "io.debezium.time.MicroTime": _of_day,
    "io.debezium.data.VariableScaleDecimal": _variable,
}


def stored(cell: Cell) -> Any:
    """The value as a statement's parameter; a DataError when it is none."""
    value, name = cell.value, cell.schema.name
    if value is None:
        return None
    try:
        if name in READ:
            return READ[name](value)
    except (TypeError, ValueError, OverflowError, KeyError) as error:
        raise DataError(f"{value!r} is no {name}: {error}") from error
    if isinstance(value, dict) or (isinstance(value, list) and type_of(cell.schema) == "JSONB"):
        return json.dumps(value, default=_plain, ensure_ascii=False)
    if isinstance(value, str) and "\0" in value:
        raise DataError("PostgreSQL takes no text with a NUL in it")
    return value


def _plain(value: Any) -> Any:
    """What JSON has no word for."""
    return value.hex() if isinstance(value, bytes) else str(value)
