"""What values look like: Kafka Connect's schemas, and its logical types by their names there."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any


class Type(StrEnum):
    """The types of Connect, spelled as its JSON schemas spell them."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float"
    FLOAT64 = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


#: Logical types: the name of a schema whose values are these classes of Python's.
DECIMAL = "org.apache.kafka.connect.data.Decimal"  #: of bytes; ``decimal.Decimal``, its scale a parameter
DATE = "org.apache.kafka.connect.data.Date"  #: of int32; ``datetime.date``
TIME = "org.apache.kafka.connect.data.Time"  #: of int32; ``datetime.time``
TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"  #: of int64; ``datetime.datetime`` in UTC


@dataclass(frozen=True, slots=True)
class Schema:
    """The shape of a value.  A struct's value is a dict in the order of its fields; the rest are what Python has."""

    type: Type
    optional: bool = False
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    default: Any = None
    parameters: tuple[tuple[str, str], ...] = ()
    #: Of a struct.
    fields: "tuple[Field, ...]" = ()
    #: Of a map's keys.
    keys: "Schema | None" = None
    #: Of a map's values, or an array's.
    values: "Schema | None" = None

    def field(self, name: str) -> "Schema | None":
        """The schema of a struct's field."""
        return next((field.schema for field in self.fields if field.name == name), None)

    def as_optional(self) -> "Schema":
        """The same for values that may be missing."""
        return replace(self, optional=True)


@dataclass(frozen=True, slots=True)
class Field:
    """A struct's field."""

    name: str
    schema: Schema


INT32 = Schema(Type.INT32)
INT64 = Schema(Type.INT64)
FLOAT64 = Schema(Type.FLOAT64)
BOOLEAN = Schema(Type.BOOLEAN)
STRING = Schema(Type.STRING)
BYTES = Schema(Type.BYTES)


def struct(name: str | None = None, /, **fields: Schema) -> Schema:
    """A struct of these fields."""
    return Schema(Type.STRUCT, name=name, fields=tuple(Field(name, schema) for name, schema in fields.items()))


def decimal(scale: int, optional: bool = False) -> Schema:
    """Numbers with so many digits behind the point."""
    return Schema(Type.BYTES, optional, DECIMAL, 1, parameters=(("scale", str(scale)),))
