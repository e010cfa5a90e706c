"""kcat's format strings."""

import json

import pytest

from millstream.cli.formats import ENCODINGS, compile_format, json_printer, unescape
from millstream.cli.options import BYTE_FORMATS
from millstream.model.records import Record

RECORD = Record(offset=42, timestamp=1_769_860_800_250, key=b"k", value=b"value", headers=(("a", b"1"), ("b", None)))
NULLS = Record(offset=0, timestamp=-1)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (r"%v\n", b"value\n"),
        ("%s %S", b"value 5"),
        ("%k=%v", b"k=value"),
        ("%t/%p/%o", b"orders/3/42"),
        ("%K %V", b"1 5"),
        ("%T", b"1769860800250"),
        ("%d", b"2026-01-31T12:00:00.250Z"),
        ("%h", b"a=1,b="),
        ("100%%", b"100%"),
        (r"a\tb\x41\\\0", b"a\tbA\\\0"),
        (r"\q", rb"\q"),
        ("plain", b"plain"),
        ("ends in %", b"ends in %"),
        ("é %v", "é value".encode()),
        ("", b""),
    ],
)
def test_a_format_prints_what_it_names(text: str, printed: bytes) -> None:
    assert compile_format(text)("orders", 3, RECORD) == printed


def test_nulls_print_as_nothing_or_as_told_and_their_length_is_minus_one() -> None:
    assert compile_format("[%k|%v] %K %V %d")("orders", 0, NULLS) == b"[|] -1 -1 -"
    assert compile_format("%k|%v", null=b"NULL")("orders", 0, NULLS) == b"NULL|NULL"


def test_bytes_are_printed_in_the_encoding_asked_for() -> None:
    assert compile_format("%k %v", key_format="hex", value_format="base64")("t", 0, RECORD) == b"6b dmFsdWU="
    assert set(ENCODINGS) == set(BYTE_FORMATS)


def test_a_letter_that_means_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="%q means nothing"):
        compile_format("%v %q")


def test_a_record_is_one_line_of_json() -> None:
    line = json_printer("orders", 3, RECORD)
    assert line.endswith(b"}\n")
    assert json.loads(line) == {
        "topic": "orders",
        "partition": 3,
        "offset": 42,
        "timestamp": 1_769_860_800_250,
        "time": "2026-01-31T12:00:00.250Z",
        "key": "k",
        "value": "value",
        "headers": [{"key": "a", "value": "1"}, {"key": "b", "value": None}],
    }


def test_bytes_that_are_not_text_are_marked_in_json() -> None:
    row = json.loads(json_printer("t", 0, RECORD._replace(key=None, value=b"\xff\x00")))
    assert (row["key"], row["value"], row["value_encoding"]) == (None, "/wA=", "base64")
    assert "key_encoding" not in row


@pytest.mark.parametrize(
    ("text", "data"), [(r"\n", b"\n"), (":", b":"), (r"\t%v", b"\t%v"), (r"\x00", b"\0"), ("%", b"%")]
)
def test_delimiters_are_unescaped_but_not_formatted(text: str, data: bytes) -> None:
    assert unescape(text) == data
