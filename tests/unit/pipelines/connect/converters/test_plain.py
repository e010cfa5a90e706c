"""Text, bytes, and headers."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from millstream.pipelines.connect.converters.base import Data
from millstream.pipelines.connect.converters.plain import ByteArrayConverter, SimpleHeaderConverter, StringConverter
from millstream.pipelines.connect.errors import DataError
from millstream.pipelines.connect.schema import BYTES, INT32, STRING, TIMESTAMP, Schema, Type, struct
from tests.unit.pipelines.connect.converters.made import made

TEXT = made(StringConverter)
AS_IS = made(ByteArrayConverter)
HEADERS = made(SimpleHeaderConverter)


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        (STRING, "é", "é"),
        (INT32, 5, "5"),
        (None, True, "true"),
        (None, 1e-5, "1.0E-5"),
        (None, Decimal("1.50"), "1.50"),
        (None, [1, None], "[1, null]"),
        (None, {"a": 1, "b": "x"}, "{a=1, b=x}"),
        (struct(a=INT32, b=STRING.as_optional()), {"a": 1, "b": None}, "Struct{a=1}"),
        (
            Schema(Type.INT64, name=TIMESTAMP, version=1),
            datetime(2024, 2, 29, 13, 5, 7, tzinfo=UTC),
            "Thu Feb 29 13:05:07 UTC 2024",
        ),
    ],
)
def test_text_is_made_of_anything(schema: Schema | None, value: Any, text: str) -> None:
    assert TEXT.encode("t", schema, value) == text.encode()


def test_text_is_read_as_text() -> None:
    assert TEXT.decode("t", "é".encode()) == Data(STRING.as_optional(), "é")
    assert TEXT.decode("t", None) == Data(STRING.as_optional(), None)
    assert TEXT.encode("t", None, None) is None
    assert made(StringConverter, converter_encoding="ISO-8859-1").decode("t", b"\xe9").value == "é"


def test_bytes_have_no_text() -> None:
    with pytest.raises(DataError, match="bytes has no text"):
        TEXT.encode("t", BYTES, b"\x00")


def test_bytes_pass_as_they_are() -> None:
    assert AS_IS.decode("t", b"\x00\xff") == Data(BYTES.as_optional(), b"\x00\xff")
    for value in (b"\x00\xff", bytearray(b"\x00\xff"), memoryview(b"\x00\xff")):
        assert AS_IS.encode("t", BYTES, value) == b"\x00\xff"
    assert AS_IS.encode("t", None, None) is None
    with pytest.raises(DataError, match="Invalid schema type"):
        AS_IS.encode("t", STRING, b"")
    with pytest.raises(DataError, match="not compatible"):
        AS_IS.encode("t", None, "text")


def test_headers_are_literals() -> None:
    assert HEADERS.encode("t", None, [1, "a"]) == b'[1,"a"]'
    assert HEADERS.decode("t", b"12") == Data(Schema(Type.INT8), 12)
    assert HEADERS.decode("t", b"\xff\xfe") == Data(BYTES, b"\xff\xfe"), "what is no text is not lost"
    assert HEADERS.decode("t", None) == Data(None, None)
    assert HEADERS.encode("t", None, None) is None
