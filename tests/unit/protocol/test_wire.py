"""Varints, at their edges and past them."""

import pytest

from millstream.model.errors import CorruptFrame
from millstream.protocol.wire import (
    decode_uvarint,
    decode_varint,
    encode_compact_string,
    encode_uvarint,
    encode_varint,
    skip_tags,
)

_UVARINTS = {
    0: "00",
    1: "01",
    127: "7f",
    128: "8001",
    300: "ac02",
    16_383: "ff7f",
    16_384: "808001",
    2**31 - 1: "ffffffff07",
    2**32 - 1: "ffffffff0f",
}


@pytest.mark.parametrize(("value", "raw"), _UVARINTS.items())
def test_an_unsigned_varint_has_seven_bits_a_byte(value: int, raw: str) -> None:
    assert encode_uvarint(value).hex() == raw
    assert decode_uvarint(b"__" + bytes.fromhex(raw) + b"__", 2) == (value, 2 + len(raw) // 2)


@pytest.mark.parametrize(
    ("value", "raw"), [(0, "00"), (-1, "01"), (1, "02"), (-64, "7f"), (64, "8001"), (-(2**31), "ffffffff0f")]
)
def test_a_signed_varint_is_zigzag_encoded(value: int, raw: str) -> None:
    assert encode_varint(value).hex() == raw
    assert decode_varint(bytes.fromhex(raw), 0) == (value, len(raw) // 2)


@pytest.mark.parametrize("raw", ["ffffffff10", "ffffffff7f", "808080808000", "ffffffffffffffffffff01"])
def test_a_varint_of_more_than_its_bits_is_refused(raw: str) -> None:
    with pytest.raises(CorruptFrame):
        decode_uvarint(bytes.fromhex(raw), 0)


def test_a_long_varint_may_have_64_bits() -> None:
    raw = encode_varint(-(2**63))
    assert decode_varint(raw, 0, 64) == (-(2**63), 10)
    with pytest.raises(CorruptFrame):
        decode_uvarint(b"\xff" * 9 + b"\x02", 0, 64)


def test_a_compact_string_counts_one_more_and_null_none() -> None:
    assert encode_compact_string(None) == b"\x00"
    assert encode_compact_string("") == b"\x01"
    assert encode_compact_string("abc") == b"\x04abc"
    assert encode_compact_string("x" * 127) == b"\x80\x01" + b"x" * 127


def test_tagged_fields_are_skipped_whatever_they_hold() -> None:
    tags = b"\x02" + b"\x00\x03abc" + b"\xac\x02\x00" + b"next"
    assert skip_tags(tags, 1, tags[0]) == tags.index(b"next")


@pytest.mark.parametrize("tags", [b"\x01\x00\x05abcd", b"\x02\x00\x00", b"\x01", b"\xff\xff\xff\xff\x0f\x00\x00"])
def test_tagged_fields_that_run_past_the_end_are_refused(tags: bytes) -> None:
    with pytest.raises((CorruptFrame, IndexError)):
        skip_tags(tags, 1, tags[0])
