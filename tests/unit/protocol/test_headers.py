"""Request and response headers: every shape they come in, and what is left when a version is unknown."""

import struct

import pytest

from millstream.model.errors import CorruptFrame
from millstream.protocol.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    response_header,
)


def test_a_plain_header_has_no_tags() -> None:
    raw = bytes.fromhex("0000 0008 00000007 0003") + b"abc"
    assert encode_request_header(0, 8, 7, "abc") == raw
    assert decode_request_header(raw + b"body") == RequestHeader(0, 8, 7, "abc", len(raw))


def test_a_flexible_header_keeps_the_old_client_id_and_adds_tags() -> None:
    raw = bytes.fromhex("0000 0009 00000007 0003") + b"abc" + b"\x00"
    assert encode_request_header(0, 9, 7, "abc") == raw
    assert decode_request_header(memoryview(bytearray(raw + b"body"))) == RequestHeader(0, 9, 7, "abc", len(raw))


def test_unknown_tagged_fields_of_a_header_are_skipped() -> None:
    raw = encode_request_header(0, 9, 7, None)[:-1] + b"\x01\x05\x02hi"
    assert decode_request_header(raw + b"body") == RequestHeader(0, 9, 7, None, len(raw))


def test_a_null_client_id_is_none() -> None:
    assert decode_request_header(bytes.fromhex("0003 0001 00000001 ffff")).client_id is None


@pytest.mark.parametrize(("key", "version"), [(999, 3), (18, 99), (0, 32767), (-1, -1)])
def test_an_unknown_api_or_version_still_says_who_asks(key: int, version: int) -> None:
    """ApiVersions at a version from the future must be answerable; so must everything else."""
    raw = struct.pack(">hhih", key, version, 42, 1)
    assert decode_request_header(raw + b"c" + b"\x00")[:4] == (key, version, 42, "c")


def test_the_first_controlled_shutdown_has_no_client_id() -> None:
    raw = encode_request_header(7, 0, 5, "ignored")
    assert raw == bytes.fromhex("0007 0000 00000005")
    assert decode_request_header(raw) == RequestHeader(7, 0, 5, None, 8)
    assert decode_request_header(raw + b"\x00\x00\x00\x01") == RequestHeader(7, 0, 5, None, 8)


@pytest.mark.parametrize("version", [8, 9])
def test_a_header_cut_anywhere_is_refused(version: int) -> None:
    raw = encode_request_header(0, version, 7, "client")
    for end in range(len(raw)):
        with pytest.raises(CorruptFrame):
            decode_request_header(raw[:end])


def test_a_client_id_that_is_not_text_is_refused() -> None:
    with pytest.raises(CorruptFrame, match="client id"):
        decode_request_header(bytes.fromhex("0000 0008 00000007 0001 ff"))


def test_header_tags_that_claim_too_much_are_refused() -> None:
    with pytest.raises(CorruptFrame):
        decode_request_header(encode_request_header(0, 9, 7, None)[:-1] + b"\x01\x00\xff\xff\xff\xff\x0f")


def test_a_response_header_is_flexible_with_its_body() -> None:
    assert response_header(0, 8, 7) == b"\x00\x00\x00\x07"
    assert response_header(0, 9, 7) == b"\x00\x00\x00\x07\x00"
    assert decode_response_header(b"\x00\x00\x00\x07body", 0, 8) == (7, 4)
    assert decode_response_header(b"\x00\x00\x00\x07\x00body", 0, 9) == (7, 5)
    assert decode_response_header(b"\x00\x00\x00\x07\x01\x00\x01xbody", 0, 9) == (7, 8)


@pytest.mark.parametrize("version", range(5))
def test_the_response_header_of_api_versions_is_never_flexible(version: int) -> None:
    assert response_header(18, version, 7) == b"\x00\x00\x00\x07"
    assert decode_response_header(b"\x00\x00\x00\x07\x00\x00", 18, version) == (7, 4)


@pytest.mark.parametrize("raw", [b"", b"\x00\x00\x00", b"\x00\x00\x00\x07", b"\x00\x00\x00\x07\x01\x00"])
def test_a_response_header_cut_short_is_refused(raw: bytes) -> None:
    with pytest.raises(CorruptFrame):
        decode_response_header(raw, 0, 9)
