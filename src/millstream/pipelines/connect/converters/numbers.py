"""Numbers and truths as a few bytes, as Kafka's own serializers write them."""

import struct
from typing import Any, ClassVar

from millstream.pipelines.connect.converters.base import Converter, Data
from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.schema import Schema, Type


class _Fixed(Converter):
    """A value of so many bytes, the highest first."""

    layout: ClassVar[struct.Struct]
    schema: ClassVar[Schema]
    #: What its values are in Python.
    kinds: ClassVar[tuple[type[Any], ...]]

    def encode(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value is None:
            return None
        is_truth = isinstance(value, bool)
        if is_truth is not (self.kinds == (bool,)) or not isinstance(value, self.kinds):
            raise DataError(f"Failed to serialize to {self.schema.type.value} (was {type(value).__name__})")
        try:
            return self.layout.pack(value)
        except (struct.error, OverflowError) as error:
            raise DataError(f"Failed to serialize to {self.schema.type.value}: {error}") from error

    def decode(self, topic: str, data: bytes | None) -> Data:
        if data is None:
            return Data(self.schema, None)
        if len(data) != self.layout.size:
            raise DataError(
                f"Failed to deserialize {self.schema.type.value}: {len(data)} bytes in place of {self.layout.size}"
            )
        return Data(self.schema, self.layout.unpack(data)[0])


class ShortConverter(_Fixed):
    """Whole numbers of 16 bits."""

    layout, schema, kinds = struct.Struct(">h"), Schema(Type.INT16, optional=True), (int,)


class IntegerConverter(_Fixed):
    """Whole numbers of 32 bits."""

    layout, schema, kinds = struct.Struct(">i"), Schema(Type.INT32, optional=True), (int,)


class LongConverter(_Fixed):
    """Whole numbers of 64 bits."""

    layout, schema, kinds = struct.Struct(">q"), Schema(Type.INT64, optional=True), (int,)


class FloatConverter(_Fixed):
    """Numbers with a point, of 32 bits."""

    layout, schema, kinds = struct.Struct(">f"), Schema(Type.FLOAT32, optional=True), (float, int)


class DoubleConverter(_Fixed):
    """Numbers with a point, of 64 bits."""

    layout, schema, kinds = struct.Struct(">d"), Schema(Type.FLOAT64, optional=True), (float, int)


class BooleanConverter(_Fixed):
    """Truths, of a byte."""

    layout, schema, kinds = struct.Struct(">?"), Schema(Type.BOOLEAN, optional=True), (bool,)

    def decode(self, topic: str, data: bytes | None) -> Data:
        if data is not None and data not in (b"\x00", b"\x01"):
            raise DataError(f"Failed to deserialize boolean: {data.hex()}")
        return super().decode(topic, data)
