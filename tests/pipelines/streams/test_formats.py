"""Every format there and back, and what does not fit told apart from what is merely absent."""

import datetime
import json
import struct
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from millstream.pipelines.streams.errors import StreamsError
from millstream.pipelines.streams.formats import Format, make_format


def _decoded(
    spark: SparkSession, kind: Format, values: list[bytes | None]
) -> list[tuple[dict[str, Any] | None, str | None]]:
    """Fields and error of each, in order."""
    df = spark.createDataFrame([(number, value) for number, value in enumerate(values)], "n int, data binary")
    df = df.withColumn("parsed", kind.parse(F.col("data")))
    decoded = kind.decode(F.col("data"), F.col("parsed"))
    rows = df.select("n", decoded.value.alias("value"), decoded.error.alias("error")).orderBy("n").collect()
    return [(row["value"].asDict(recursive=True) if row["value"] else None, row["error"]) for row in rows]


def _encoded(spark: SparkSession, kind: Format, fields: list[dict[str, Any]]) -> list[bytes]:
    df = spark.createDataFrame([tuple(row.get(name) for name in kind.schema.names) for row in fields], kind.schema)
    rows = df.select(kind.encode(F.struct(*kind.schema.names)).alias("data")).collect()
    return [bytes(row["data"]) for row in rows]


def test_json_that_does_not_fit_is_an_error_and_never_a_null(spark: SparkSession) -> None:
    kind = make_format("json", "id long not null, total double, note string", {})
    good = [b'{"id":1,"total":2.5,"more":[]}', b'{"id":2}', b'{"id":3,"note":"a}{b"}', b' {"id":4} ', None]
    values = [(fields or {}).get("id") for fields, error in _decoded(spark, kind, good) if error is None]
    assert values == [1, 2, 3, 4, None]
    bad = [
        b'{"id":"x"}', b'{"id":1', b"", b"  ", b'[{"id":1}]', b"1", b"null", b'{"id":1e30}', b"{}", b'{"id":1}{"id":2}',
        b'{"id":1} junk', b'\xff{"id":1}', b'{"id":1.5}', b'{"id":1,"total":"2.5"}',
    ]  # fmt: skip
    for value, (fields, error) in zip(bad, _decoded(spark, kind, list(bad)), strict=True):
        assert fields is None and error, (value, fields, error)


def test_csv_that_does_not_fit_is_an_error_and_never_a_null(spark: SparkSession) -> None:
    kind = make_format("csv", "id long, total double, note string", {})
    good = _decoded(spark, kind, [b"1,2.5,a", b'1,,"a,b"'])
    assert good == [({"id": 1, "total": 2.5, "note": "a"}, None), ({"id": 1, "total": None, "note": "a,b"}, None)]
    for fields, error in _decoded(spark, kind, [b"1,2.5", b"1,2.5,a,b", b"x,2.5,a", b"", b"\xff,1,a"]):
        assert fields is None and error


def test_raw_numbers_are_those_of_kafkas_serializers(spark: SparkSession) -> None:
    ints, longs = [0, 1, -1, 2**31 - 1, -(2**31)], [0, 7, -7, 2**63 - 1, -(2**63)]
    for ddl, code, numbers in (("n int", ">i", ints), ("n long", ">q", longs)):
        kind = make_format("raw", ddl, {})
        encoded = [struct.pack(code, number) for number in numbers]
        assert _encoded(spark, kind, [{"n": number} for number in numbers]) == encoded
        assert _decoded(spark, kind, [*encoded, b"abc"])[:-1] == [({"n": number}, None) for number in numbers]
        assert "bytes of an" in str(_decoded(spark, kind, [b"abc"])[0][1])
    text = make_format("raw", "s string", {})
    assert _decoded(spark, text, ["é".encode(), b"\xff", b""]) == [
        ({"s": "é"}, None),
        (None, "not UTF-8"),
        ({"s": ""}, None),
    ]
    with pytest.raises(StreamsError, match="takes one column"):
        make_format("raw", "a long, b long", {})


def test_json_and_csv_come_back_as_they_went_out(spark: SparkSession) -> None:
    when = datetime.datetime(2024, 2, 29, 23, 59, 59, 123456)
    row = {"id": 2**60 + 1, "total": 0.1, "at": when, "day": datetime.date(2024, 2, 29), "note": 'a "b", c'}
    for name in ("json", "csv"):
        kind = make_format(name, "id long, total double, at timestamp, day date, note string", {})
        assert _decoded(spark, kind, list(_encoded(spark, kind, [row]))) == [(row, None)]


AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
        {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
            {"name": "sku", "type": "string"}]}}},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
    ],
}  # fmt: skip


def test_avro_there_and_back_and_what_is_cut_or_too_long(spark: SparkSession) -> None:
    kind = make_format("avro", json.dumps(AVRO), {})
    assert [field.nullable for field in kind.schema.fields] == [False, True, False, False, False, False]
    row = {
        "id": -5,
        "note": None,
        "at": datetime.datetime(2024, 1, 1, 0, 0, 0, 5000),
        "kind": "OLD",
        "lines": [{"sku": "a"}],
        "tags": {"x": 1},
    }
    (data,) = _encoded(spark, kind, [row])
    good, cut, longer = _decoded(spark, kind, [data, data[:-3], data + b"\x00"])
    assert good == (row, None)
    assert cut[0] is None and cut[1]
    assert longer == (None, "ValueError: 1 bytes are left over")
    framed = make_format("avro", json.dumps(AVRO), {"framing": "registry"})
    assert _decoded(spark, framed, [b"\x00\x00\x00\x00\x07" + data, data])[0] == (row, None)
    with pytest.raises(StreamsError, match="union of several types"):
        union = {"type": "record", "name": "U", "fields": [{"name": "u", "type": ["int", "string"]}]}
        make_format("avro", json.dumps(union), {})


def _message_class() -> Any:
    """What protoc makes of a small file."""
    file = descriptor_pb2.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    kinds = descriptor_pb2.FieldDescriptorProto
    order.field.add(name="id", number=1, type=kinds.TYPE_UINT64, label=1)
    order.field.add(name="note", number=2, type=kinds.TYPE_STRING, label=1, proto3_optional=True, oneof_index=0)
    order.oneof_decl.add(name="_note")
    order.field.add(name="skus", number=3, type=kinds.TYPE_STRING, label=3)
    order.field.add(name="payload", number=4, type=kinds.TYPE_BYTES, label=1)
    order.field.add(name="buyer", number=5, type=kinds.TYPE_MESSAGE, type_name=".shop.Buyer", label=1)
    file.message_type.add(name="Buyer").field.add(name="name", number=1, type=kinds.TYPE_STRING, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_protobuf_there_and_back_tells_absent_from_empty(spark: SparkSession) -> None:
    message_class = _message_class()
    kind = make_format("protobuf", message_class, {})
    full = {"id": -1, "note": "", "skus": ["a", "b"], "payload": b"\x00", "buyer": {"name": "Ann"}}
    bare: dict[str, Any] = {"id": 0, "note": None, "skus": [], "payload": b"", "buyer": None}
    assert message_class.FromString(_encoded(spark, kind, [full])[0]).id == 2**64 - 1
    data = _encoded(spark, kind, [full, bare])
    found = _decoded(spark, kind, [*data, b"\xff\xff", None])
    assert [fields for fields, _ in found] == [full, bare, None, None]
    assert [bool(error) for _, error in found] == [False, False, True, False]
    with pytest.raises(StreamsError, match="<descriptor set file>#<message name>"):
        make_format("protobuf", "shop.Order", {})
