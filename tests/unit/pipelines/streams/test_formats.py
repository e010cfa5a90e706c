"""Schemas of Avro and Protobuf as columns, and what has none, without Spark."""

import json

import pytest
from pyspark.sql.types import StructType

from millstream.pipelines.streams.errors import StreamsError
from millstream.pipelines.streams.formats import make_format


def _avro(*fields: object) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": list(fields)})


def test_avros_types_become_columns() -> None:
    schema = _avro(
        {"name": "id", "type": "long"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {"name": "hash", "type": {"type": "fixed", "name": "H", "size": 16}},
        {"name": "ids", "type": {"type": "map", "values": {"type": "array", "items": "int"}}},
    )
    found = make_format("avro", schema, {}).schema
    assert (
        found.simpleString() == "struct<id:bigint,price:decimal(8,2),day:date,hash:binary,ids:map<string,array<int>>>"
    )
    assert [field.nullable for field in found.fields] == [False, False, True, False, False]


def test_what_has_no_column_is_refused() -> None:
    for schema, message in (
        (_avro({"name": "u", "type": ["int", "string"]}), "union of several types"),
        (_avro({"name": "d", "type": {"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}}), None),
        ('"string"', "takes a record"),
    ):
        if message is None:
            assert make_format("avro", schema, {}).schema.simpleString() == "struct<d:binary>"
            continue
        with pytest.raises(StreamsError, match=message):
            make_format("avro", schema, {})
    with pytest.raises(StreamsError, match="give columns as"):
        make_format("json", 5, {})
    with pytest.raises(StreamsError, match="takes one column"):
        make_format("raw", StructType([]), {})
