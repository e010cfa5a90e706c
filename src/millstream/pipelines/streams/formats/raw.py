"""Bytes as one column: as they are, as text, or as Kafka's own serializers write numbers."""

import struct
from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from millstream.pipelines.streams.errors import StreamsError
from millstream.pipelines.streams.formats.base import Decoded, Format, missing_fields

#: Big-endian, as Kafka's IntegerSerializer and LongSerializer: type -> bytes.
_WHOLE_BYTES = {"int": struct.calcsize(">i"), "bigint": struct.calcsize(">q")}
_TYPES = ("binary", "string", *_WHOLE_BYTES)


class Raw(Format):
    """A single column of type binary, string, int or long."""

    def __init__(self, schema: StructType, options: Mapping[str, str]) -> None:
        del options
        if len(schema.fields) != 1 or schema.fields[0].dataType.simpleString() not in _TYPES:
            raise StreamsError(
                f"format='raw' takes one column of binary, string, int or long, not {schema.simpleString()}"
            )
        self.schema = schema
        self._field = schema.fields[0]
        self._type = self._field.dataType.simpleString()

    def parse(self, data: Column) -> Column:
        return data

    def decode(self, data: Column, parsed: Column) -> Decoded:
        if self._type in _WHOLE_BYTES:
            size = _WHOLE_BYTES[self._type]
            column = F.when(F.length(data) == size, F.conv(F.hex(data), 16, -10).cast(self._type))
            wrong = F.when(F.length(data) != size, F.lit(f"not the {size} bytes of an {self._type}"))
            # conv reads 64 bits; four bytes must be given their sign by hand.
            if size == 4:
                unsigned = F.conv(F.hex(data), 16, 10).cast("bigint")
                column = F.when(unsigned >= 2**31, unsigned - 2**32).otherwise(unsigned).cast("int")
        elif self._type == "string":
            column = data.cast("string")
            wrong = F.when(~F.is_valid_utf8(column), F.lit("not UTF-8"))
        else:
            column, wrong = data, F.lit(None).cast("string")
        value = F.struct(column.alias(self._field.name))
        error = F.when(data.isNull(), F.lit(None).cast("string")).otherwise(
            F.coalesce(wrong, missing_fields(value, self.schema))
        )
        return Decoded(F.when(data.isNotNull() & error.isNull(), value), error)

    def encode(self, value: Column) -> Column:
        column = value[self._field.name]
        if self._type not in _WHOLE_BYTES:
            return column.cast("binary")
        digits = 2 * _WHOLE_BYTES[self._type]
        # hex writes a negative int as a 64-bit one: its last digits are those of 32 bits.
        return F.unhex(F.right(F.lpad(F.hex(column), 16, "0"), F.lit(digits)))
