"""Avro: one datum without a header, or behind the five bytes that schema registries put before it."""

import io
import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from millstream.pipelines.streams.errors import StreamsError
from millstream.pipelines.streams.formats.python import PythonFormat, Reader, Writer

#: Avro's type, or logical type -> Spark's.
_TYPES: dict[str, DataType] = {
    "boolean": BooleanType(),
    "bytes": BinaryType(),
    "date": DateType(),
    "double": DoubleType(),
    "enum": StringType(),
    "fixed": BinaryType(),
    "float": FloatType(),
    "int": IntegerType(),
    "long": LongType(),
    "string": StringType(),
    "timestamp-micros": TimestampType(),
    "timestamp-millis": TimestampType(),
    "uuid": StringType(),
}
_FRAME_BYTES = 5


class Avro(PythonFormat):
    """Records of one Avro schema, given as its JSON."""

    def __init__(self, schema: str, options: Mapping[str, str]) -> None:
        try:
            import fastavro
        except ImportError:
            raise StreamsError("format='avro' needs fastavro: pip install 'millstream[spark]'") from None
        self._framed = options.get("framing", "none") == "registry"
        self._avro: Any = fastavro.parse_schema(json.loads(schema))
        spark_type = _type_of(json.loads(schema))
        if not isinstance(spark_type, StructType):
            raise StreamsError(f"format='avro' takes a record, not {spark_type.simpleString()}")
        self.schema = spark_type

    def reader(self) -> Reader:
        import fastavro

        def read(data: bytes) -> dict[str, Any]:
            if self._framed:
                if len(data) < _FRAME_BYTES or data[0] != 0:
                    raise ValueError("no schema registry's frame before the datum")
                data = data[_FRAME_BYTES:]
            stream = io.BytesIO(data)
            found: Any = fastavro.schemaless_reader(stream, self._avro, None)
            if stream.tell() != len(data):
                raise ValueError(f"{len(data) - stream.tell()} bytes are left over")
            return dict(found)

        return read

    def writer(self) -> Writer:
        import fastavro

        if self._framed:
            raise StreamsError("framing='registry' is only read: the id of a schema is the registry's to give")

        def write(row: dict[str, Any]) -> bytes:
            stream = io.BytesIO()
            fastavro.schemaless_writer(stream, self._avro, row)
            return stream.getvalue()

        return write


def _type_of(schema: Any) -> DataType:
    if isinstance(schema, list):
        present = [branch for branch in schema if branch != "null"]
        if len(present) != 1:
            raise StreamsError(f"an Avro union of several types has no column: {json.dumps(schema)}")
        return _type_of(present[0])
    if isinstance(schema, str):
        schema = {"type": schema}
    kind = schema["type"]
    if isinstance(kind, dict | list):
        return _type_of(kind)
    if kind == "record":
        return StructType([StructField(f["name"], _type_of(f["type"]), _nullable(f["type"])) for f in schema["fields"]])
    if kind == "array":
        return ArrayType(_type_of(schema["items"]))
    if kind == "map":
        return MapType(StringType(), _type_of(schema["values"]))
    logical = schema.get("logicalType", kind)
    if logical == "decimal":
        return DecimalType(schema["precision"], schema.get("scale", 0))
    found = _TYPES.get(logical, _TYPES.get(kind))
    if found is None:
        raise StreamsError(f"no column holds Avro's {logical!r}")
    return found


def _nullable(schema: Any) -> bool:
    return isinstance(schema, list) and "null" in schema
