"""Records as bytes, in the columns that Spark carries them in."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from millstream.pipelines.connect.letters import Raw

#: A batch of Arrow's holds no more than about this.
CHUNK_ROWS = 5_000
CHUNK_BYTES = 1 << 20

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
#: What format("millstream") writes.
COLUMNS = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("headers", ArrayType(_HEADER)),
        StructField("timestamp_ms", LongType()),
    ]
)
_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("timestamp_ms", pa.int64()),
    ]
)


def chunks(raws: Iterable[Raw]) -> Iterator[pa.RecordBatch]:
    """The records in columns, some at a time."""
    held: list[Raw] = []
    held_bytes = 0
    for raw in raws:
        held.append(raw)
        held_bytes += len(raw.key or b"") + len(raw.value or b"")
        if len(held) >= CHUNK_ROWS or held_bytes >= CHUNK_BYTES:
            yield _chunk(held)
            held, held_bytes = [], 0
    if held:
        yield _chunk(held)


def _chunk(raws: list[Raw]) -> pa.RecordBatch:
    columns: list[list[object]] = [
        [raw.topic for raw in raws],
        [raw.partition for raw in raws],
        [raw.key for raw in raws],
        [raw.value for raw in raws],
        [[{"key": name, "value": value} for name, value in raw.headers] or None for raw in raws],
        [raw.timestamp_ms for raw in raws],
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def raws(batch: pa.RecordBatch) -> Iterator[Raw]:
    """The records of a batch that format("millstream") read, with headers."""
    names = ("topic", "key", "value", "headers", "partition", "offset")
    columns = [batch.column(name).to_pylist() for name in names]
    times_us = batch.column("timestamp").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
    for (topic, key, value, headers, partition, offset), time_us in zip(
        zip(*columns, strict=True), times_us, strict=True
    ):
        pairs = [(header["key"], header["value"]) for header in headers or ()]
        yield Raw(topic, key, value, pairs, partition, offset, None if time_us is None else time_us // 1000)
