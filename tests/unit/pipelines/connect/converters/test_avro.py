"""Avro without a schema registry."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from millstream.pipelines.connect.converters.avro import AvroConverter
from millstream.pipelines.connect.converters.avro_schemas import avro_of, connect_of
from millstream.pipelines.connect.converters.base import Data
from millstream.pipelines.connect.errors import DataError, Misconfigured
from millstream.pipelines.connect.schema import (
    BYTES,
    DATE,
    INT32,
    INT64,
    STRING,
    TIMESTAMP,
    Field,
    Schema,
    Type,
    decimal,
    struct,
)
from tests.unit.pipelines.connect.converters.made import made

ORDER = struct(
    "shop.Order",
    id=INT64,
    name=STRING.as_optional(),
    small=Schema(Type.INT8),
    price=decimal(2),
    day=Schema(Type.INT32, name=DATE, version=1),
    at=Schema(Type.INT64, name=TIMESTAMP, version=1),
    tags=Schema(Type.ARRAY, values=STRING),
    counts=Schema(Type.MAP, keys=STRING, values=INT32),
    address=struct("shop.Address", street=STRING).as_optional(),
)
AN_ORDER = {
    "id": 300,
    "name": None,
    "small": -5,
    "price": Decimal("12.50"),
    "day": date(2024, 2, 29),
    "at": datetime(2024, 2, 29, 13, 5, 7, 89_000, UTC),
    "tags": ["a"],
    "counts": {"x": 1},
    "address": {"street": "Elm"},
}
TEXT = json.dumps(avro_of(ORDER))


@pytest.mark.parametrize("framing", ["none", "single-object"])
def test_what_is_written_by_a_records_schema_is_read_by_the_same_given(framing: str) -> None:
    data = made(AvroConverter, framing=framing).encode("t", ORDER, AN_ORDER)
    assert data == made(AvroConverter, framing=framing, schema=TEXT).encode("t", None, AN_ORDER)
    found = made(AvroConverter, framing=framing, schema=TEXT).decode("t", data)
    assert found.value == AN_ORDER
    assert found.schema is not None
    assert [(field.name, field.schema.type, field.schema.name) for field in found.schema.fields] == [
        (field.name, field.schema.type, field.schema.name) for field in ORDER.fields
    ]


def test_a_single_object_is_known_by_its_mark() -> None:
    """The fingerprint of "int" is in Avro's specification."""
    converter = made(AvroConverter, framing="single-object", schema='"int"')
    data = bytes.fromhex("c301") + bytes.fromhex("7275d51a3f395c8f")[::-1] + b"\x0a"
    assert converter.encode("t", INT32, 5) == data
    assert converter.decode("t", data) == Data(INT32, 5)
    with pytest.raises(DataError, match="another schema, whose fingerprint is 7275d51a3f395c8f"):
        made(AvroConverter, framing="single-object", schema='"long"').decode("t", data)
    with pytest.raises(DataError, match="no mark"):
        converter.decode("t", b"\x0a")


def test_a_registrys_frame_is_passed_over() -> None:
    converter = made(AvroConverter, framing="registry", schema='"int"')
    assert converter.decode("t", b"\x00\x00\x00\x00\x07\x0a").value == 5
    with pytest.raises(DataError, match="frame"):
        converter.decode("t", b"\x0a")
    with pytest.raises(Misconfigured, match="only read"):
        converter.encode("t", INT32, 5)


@pytest.mark.parametrize("data", [b"", b"\x0a\x0a", b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80"])
def test_bytes_that_are_no_datum_are_refused(data: bytes) -> None:
    with pytest.raises(DataError):
        made(AvroConverter, schema='"int"').decode("t", data)


@pytest.mark.parametrize(("schema", "value"), [(INT32, "x"), (struct(a=INT32), {}), (STRING, 5), (None, 5)])
def test_what_does_not_fit_its_schema_is_not_written(schema: Schema | None, value: Any) -> None:
    with pytest.raises(DataError):
        made(AvroConverter).encode("t", schema, value)


def test_tombstones_stay_tombstones() -> None:
    assert made(AvroConverter).encode("t", ORDER, None) is None
    assert made(AvroConverter).decode("t", None) == Data(None, None)


def test_without_a_schema_nothing_is_read() -> None:
    with pytest.raises(Misconfigured, match="without its schema"):
        made(AvroConverter).decode("t", b"\x0a")


@pytest.mark.parametrize("schema", ["{", '{"type":"record"}', '["int","string"]', '"no_such"', "5"])
def test_a_schema_that_is_none_is_refused_at_once(schema: str) -> None:
    with pytest.raises(Misconfigured, match="schema"):
        made(AvroConverter, schema=schema)


def test_names_that_avro_has_none_for() -> None:
    with pytest.raises(DataError, match="called 'a-b'"):
        avro_of(Schema(Type.STRUCT, fields=(Field("a-b", INT32),)))
    with pytest.raises(DataError, match="texts for keys"):
        avro_of(Schema(Type.MAP, keys=INT32, values=INT32))
    assert avro_of(Schema(Type.STRUCT, name="1st order"))["name"] == "_1st_order"


def test_two_records_of_one_name_are_told_apart_and_the_same_is_told_once() -> None:
    a, b = struct("A", x=INT32), struct("A", y=STRING)
    fields = avro_of(struct("Row", one=a, two=b, three=a))["fields"]
    assert [field["type"] if isinstance(field["type"], str) else field["type"]["name"] for field in fields] == [
        "A",
        "A_",
        "A",
    ]


def test_names_are_followed_and_fixed_bytes_are_bytes() -> None:
    avro = {
        "type": "record",
        "name": "Row",
        "namespace": "n",
        "fields": [
            {"name": "a", "type": {"type": "fixed", "name": "Four", "size": 4}},
            {"name": "b", "type": ["null", "Four"]},
            {"name": "c", "type": {"type": "enum", "name": "Color", "symbols": ["RED"]}},
        ],
    }
    assert connect_of(avro) == struct("n.Row", a=BYTES, b=BYTES.as_optional(), c=STRING)
