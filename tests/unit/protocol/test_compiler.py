"""The compiled codec on a message made up to hold every type in every position."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.model.errors import CorruptFrame
from millstream.protocol.codec import decode, encode
from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import (
    Array,
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    String,
    UInt16,
    UInt32,
    Uuid,
    UVarInt,
    VarInt,
    VarLong,
)
from tests.properties.strategies import valid


@struct
class Inner:
    number: int = field(Int32)
    text: str | None = field(String, nullable="0+")
    later: int = field(Int64, "2+", default=-1)
    tagged: int = field(Int16, "2+", default=7, tag=0)


@request(key=32000, versions="0-2", flexible="2+")
class EverythingRequest(Request):
    flag: bool = field(Bool)
    tiny: int = field(Int8)
    port: int = field(UInt16)
    crc: int = field(UInt32)
    ratio: float = field(Float64)
    uuid: bytes = field(Uuid)
    text: str = field(String)
    blob: bytes = field(Bytes)
    maybe_blob: bytes | None = field(Bytes, nullable="1+", default=b"")
    gone: int = field(Int32, "0-1", default=5)
    delta: int = field(VarInt)
    long_delta: int = field(VarLong)
    count: int = field(UVarInt)
    inner: Inner = field(Inner)
    maybe_inner: Inner | None = field(Inner, "1+", nullable="1+")
    inners: list[Inner] = field(Array(Inner))
    texts: list[str] = field(Array(String))
    uuids: list[bytes] = field(Array(Uuid))
    numbers: list[int] | None = field(Array(Int64), nullable="0+")
    flags: list[bool] = field(Array(Bool))
    deltas: list[int] = field(Array(VarInt))
    tag_text: str | None = field(String, "2+", nullable="2+", tag=1)
    tag_inner: Inner | None = field(Inner, "2+", tag=3)
    tag_inners: list[Inner] = field(Array(Inner), "2+", tag=2)
    tag_numbers: list[int] = field(Array(Int32), "1+", tag=200, tagged="2+")
    tag_flag: bool = field(Bool, "2+", default=True, tag=4)


@response(to=EverythingRequest)
class EverythingResponse(Response):
    pass


@request(key=32002, versions="0-2", flexible="2+")
class InnerRequest(Request):
    inner: Inner = field(Inner)


@struct
class Pair:
    key: str = field(String)
    value: str | None = field(String, "1+", nullable="2+", default="none")


@request(key=32001, versions="0-3", flexible="3+")
class PairsRequest(Request):
    pairs: list[Pair] = field(Array(Pair))
    limit: int = field(Int32, "1-2", default=10)


@pytest.mark.parametrize("version", [0, 1, 2])
@settings(deadline=None, max_examples=50)
@given(data=st.data())
def test_every_type_in_every_position_survives(version: int, data: st.DataObject) -> None:
    message = data.draw(valid(EverythingRequest, version))
    encoded = encode(message, version)
    assert decode(EverythingRequest, encoded, version) == message
    for end in range(len(encoded)):
        with pytest.raises(CorruptFrame):
            decode(EverythingRequest, encoded[:end], version)


def test_bytes_worked_out_by_hand() -> None:
    message = PairsRequest(pairs=[Pair(key="a", value="b"), Pair(key="c", value=None)], limit=3)
    assert encode(message, 2) == bytes.fromhex("00000002 0001 61 0001 62 0001 63 ffff 00000003")
    assert encode(message, 3) == bytes.fromhex("03 02 61 02 62 00 02 63 00 00 00")


def test_a_field_the_version_does_not_carry_is_dropped_and_comes_back_as_its_default() -> None:
    message = PairsRequest(pairs=[Pair(key="a", value="b")], limit=3)
    assert decode(PairsRequest, encode(message, 0), 0) == PairsRequest(pairs=[Pair(key="a", value="none")], limit=10)
    assert decode(PairsRequest, encode(message, 3), 3).limit == 10


def test_null_is_refused_where_the_version_does_not_allow_it() -> None:
    encoded = bytes.fromhex("00000001 0001 61 ffff 00000003")
    assert decode(PairsRequest, encoded, 2).pairs[0].value is None
    with pytest.raises(CorruptFrame, match="value"):
        decode(PairsRequest, encoded, 1)
    with pytest.raises(CorruptFrame, match="pairs"):
        decode(PairsRequest, b"\xff\xff\xff\xff", 0)


def test_tagged_fields_at_their_defaults_are_not_sent() -> None:
    inner = Inner()
    assert encode(InnerRequest(inner=inner), 2) == bytes.fromhex("00000000 00 ffffffffffffffff 00 00")
    inner.tagged = 8
    assert encode(InnerRequest(inner=inner), 2) == bytes.fromhex("00000000 00 ffffffffffffffff 01 00 02 0008 00")


def test_unknown_tagged_fields_are_skipped_among_known_ones() -> None:
    encoded = bytes.fromhex("00000000 00 ffffffffffffffff 03 00 02 0008 01 00 c801 03 616263 00")
    assert decode(InnerRequest, encoded, 2).inner.tagged == 8


@pytest.mark.parametrize("tag", ["00010000", "0003000800", "00ff010008"])
def test_a_tagged_field_of_the_wrong_size_is_refused(tag: str) -> None:
    encoded = bytes.fromhex("00000000 00 ffffffffffffffff 01" + tag)
    with pytest.raises(CorruptFrame):
        decode(InnerRequest, encoded, 2)
