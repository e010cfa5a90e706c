"""What a format promises: bytes into typed columns and back, and never a silent null."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

#: A struct that never meets a field of this name in data.
CORRUPT = "_millstream_corrupt"


@dataclass(frozen=True, slots=True)
class Decoded:
    """A column of structs, and one that says why a record does not fit (null where it does)."""

    value: Column
    error: Column


class Format(ABC):
    """How a record's key or value lies in its bytes."""

    #: The columns it gives.
    schema: StructType

    @abstractmethod
    def parse(self, data: Column) -> Column:
        """What ``decode`` looks at several times: a column of its own, so that records are parsed once."""

    @abstractmethod
    def decode(self, data: Column, parsed: Column) -> Decoded:
        """The struct that the bytes hold; bytes that do not fit the schema give an error, never a null in a field."""

    @abstractmethod
    def encode(self, value: Column) -> Column:
        """The bytes of a struct that is not null."""


def missing_fields(value: Column, schema: StructType) -> Column:
    """An error where a field declared NOT NULL has no value, else null."""
    error = F.lit(None).cast("string")
    for field in schema.fields:
        if not field.nullable:
            error = F.when(value[field.name].isNull(), F.lit(f"field {field.name} is missing")).otherwise(error)
    return error
