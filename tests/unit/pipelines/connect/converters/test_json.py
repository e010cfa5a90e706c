"""JSON with its schema beside it, and without."""

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from millstream.pipelines.connect.converters.base import Data
from millstream.pipelines.connect.converters.json import JsonConverter
from millstream.pipelines.connect.errors import DataError, Misconfigured
from millstream.pipelines.connect.schema import (
    BYTES,
    DATE,
    FLOAT64,
    INT32,
    STRING,
    TIME,
    TIMESTAMP,
    Schema,
    Type,
    decimal,
    struct,
)
from tests.unit.pipelines.connect.converters.made import made

ENVELOPED = made(JsonConverter)
BARE = made(JsonConverter, schemas_enable="false")
MOMENT = datetime(2024, 2, 29, 13, 5, 7, 89_000, UTC)


def test_a_struct_is_written_with_its_schema_in_kafkas_order() -> None:
    schema = struct("Order", id=INT32, price=decimal(2), name=STRING.as_optional())
    assert ENVELOPED.encode("t", schema, {"id": 5, "price": Decimal("12.50"), "name": None}) == (
        b'{"schema":{"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"},{"type":"bytes",'
        b'"optional":false,"name":"org.apache.kafka.connect.data.Decimal","version":1,"parameters":{"scale":"2"},'
        b'"field":"price"},{"type":"string","optional":true,"field":"name"}],"optional":false,"name":"Order"},'
        b'"payload":{"id":5,"price":"BOI=","name":null}}'
    )


@pytest.mark.parametrize(
    ("schema", "value", "payload"),
    [
        (Schema(Type.INT32, name=DATE, version=1), date(1970, 1, 3), "2"),
        (Schema(Type.INT32, name=TIME, version=1), time(0, 0, 1), "1000"),
        (Schema(Type.INT64, name=TIMESTAMP, version=1), MOMENT, "1709211907089"),
        (decimal(0), Decimal(-129), '"/38="'),
        (BYTES, b"\x00\xff", '"AP8="'),
        (Schema(Type.FLOAT32), 0.10000000149011612, "0.1"),
        (FLOAT64, float("nan"), '"NaN"'),
        (Schema(Type.MAP, keys=STRING, values=INT32), {"a": 1}, '{"a":1}'),
        (Schema(Type.MAP, keys=INT32, values=STRING), {1: "a"}, '[[1,"a"]]'),
        (Schema(Type.ARRAY, values=INT32), [1, 2], "[1,2]"),
        (Schema(Type.INT32, default=7), None, "7"),
        (INT32.as_optional(), None, "null"),
        (None, {"a": [1, 2.5, None, True, "é"]}, '{"a":[1,2.5,null,true,"é"]}'),
        (None, {1: b"\x00"}, '[[1,"AA=="]]'),
    ],
)
def test_every_type_has_its_json(schema: Schema | None, value: Any, payload: str) -> None:
    assert BARE.encode("t", schema, value) == payload.encode()


def test_decimals_may_be_numbers_and_keep_their_digits() -> None:
    numeric = made(JsonConverter, decimal_format="numeric")
    price = Decimal("12345678901234567890.1234567890")
    data = numeric.encode("t", decimal(10), price)
    assert data is not None
    assert json.loads(data, parse_float=str)["payload"] == "12345678901234567890.1234567890"
    assert ENVELOPED.decode("t", data).value == price
    assert ENVELOPED.decode("t", data).value == price, "and again, when its schema is known"


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (INT32, "5"),
        (INT32, True),
        (INT32, 2**31),
        (Schema(Type.INT8), 128),
        (STRING, 5),
        (BYTES, "text"),
        (struct(a=INT32), [1]),
        (struct(a=INT32), {}),
        (decimal(2), Decimal("1.234")),
        (decimal(2), 1.5),
        (Schema(Type.INT32, name=DATE, version=1), MOMENT),
        (Schema(Type.INT64, name=TIMESTAMP, version=1), "now"),
        (None, Decimal(1)),
        (None, {"a": object()}),
        (STRING, "\ud800"),
    ],
)
def test_what_does_not_fit_its_schema_is_not_written(schema: Schema | None, value: Any) -> None:
    with pytest.raises(DataError):
        ENVELOPED.encode("t", schema, value)


def test_an_error_names_the_field_that_it_is_about() -> None:
    with pytest.raises(DataError, match="field a: field b: Invalid type for INT32: str"):
        BARE.encode("t", struct(a=struct(b=INT32)), {"a": {"b": "x"}})
    data = b'{"schema":{"type":"struct","fields":[{"type":"int32","field":"a"}]},"payload":{"a":"x"}}'
    with pytest.raises(DataError, match='field a: "x" is no INT32'):
        ENVELOPED.decode("t", data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[1]",
        b'{"schema":null}',
        b'{"schema":null,"payload":1,"more":2}',
        b'{"schema":{"type":"int33"},"payload":1}',
        b'{"schema":{},"payload":1}',
        b'{"schema":{"type":"int32"},"payload":null}',
        b'{"schema":{"type":"int32"},"payload":1.5}',
        b'{"schema":{"type":"int32"},"payload":"1"}',
        b'{"schema":{"type":"array"},"payload":[]}',
        b'{"schema":{"type":"struct"},"payload":{}}',
        b'{"schema":{"type":"bytes"},"payload":"?"}',
        b'{"schema":{"type":"int32"},"payload":NaN}',
        b"\xff\xff",
        b'{"schema":{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal"},"payload":"AA=="}',
        b'{"schema":{"type":"int64","name":"org.apache.kafka.connect.data.Timestamp"},"payload":9000000000000000000}',
        b"[" * 100_000,
    ],
)
def test_bytes_that_are_no_envelope_are_refused(data: bytes) -> None:
    """Twice: what is remembered of the first must not let the second pass."""
    for _ in range(2):
        with pytest.raises(DataError):
            ENVELOPED.decode("t", data)


def test_nothing_is_a_tombstone_but_a_null_with_a_schema_is_not() -> None:
    assert ENVELOPED.encode("t", None, None) is None
    assert ENVELOPED.decode("t", None) == Data(None, None)
    assert ENVELOPED.encode("t", INT32.as_optional(), None) is not None
    assert BARE.decode("t", b"") == Data(None, None)


def test_json_without_a_schema_is_read_as_it_is() -> None:
    assert BARE.decode("t", b'{"a":[1,2.5,null]}') == Data(None, {"a": [1, 2.5, None]})


def test_a_schema_may_be_given_once_for_all() -> None:
    content = '{"type":"struct","fields":[{"type":"int64","field":"id"}]}'
    told = made(JsonConverter, schema_content=content)
    assert told.decode("t", b'{"id":5}') == Data(struct(id=Schema(Type.INT64)), {"id": 5})
    for data in (b"", b'{"schema":null,"payload":{"id":5}}'):
        with pytest.raises(DataError):
            told.decode("t", data)
    untold = made(JsonConverter, schema_content=content, schemas_enable="false")
    assert untold.decode("t", b'{"id":5}') == Data(None, {"id": 5})


@pytest.mark.parametrize("content", ["{", "5", '{"type":"int33"}', '{"type":"int32","default":"x"}'])
def test_a_schema_that_is_none_is_refused_at_once(content: str) -> None:
    with pytest.raises(Misconfigured, match=r"schema\.content is no schema"):
        made(JsonConverter, schema_content=content)


def test_a_missing_value_is_the_default_unless_said_otherwise() -> None:
    data = b'{"schema":{"type":"int32","optional":true,"default":7},"payload":null}'
    assert ENVELOPED.decode("t", data).value == 7
    assert made(JsonConverter, replace_null_with_default="false").decode("t", data).value is None


def test_envelopes_are_read_whatever_their_order_and_spaces() -> None:
    for text in ('{ "payload" : 5, "schema" : {"type": "int32"} }', '{"schema":{"type":"int32"}, "payload":5}'):
        for _ in range(2):
            assert ENVELOPED.decode("t", text.encode()) == Data(INT32, 5)


def test_many_schemas_are_kept_apart() -> None:
    small = made(JsonConverter, schemas_cache_size="2")
    for _ in range(2):
        for width in ("int8", "int16", "int32", "int64"):
            found = small.decode("t", f'{{"schema":{{"type":"{width}"}},"payload":1}}'.encode())
            assert found == Data(Schema(Type(width)), 1)
            assert small.encode("t", found.schema, 1) is not None
