"""Decoding undoes encoding, for every message at every version."""

from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.protocol.codec import decode, encode, encode_parts
from millstream.protocol.schema import Message
from tests.properties.strategies import VERSIONED, valid


@pytest.mark.parametrize(("cls", "version"), VERSIONED)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_every_version_survives_a_round_trip(cls: type[Message], version: int, data: st.DataObject) -> None:
    """What a version carries comes back as it was, from any kind of buffer and from any place in it."""
    message = data.draw(valid(cls, version))
    encoded = encode(message, version)
    assert decode(cls, encoded, version) == message
    assert decode(cls, memoryview(bytearray(b"head" + encoded + b"tail")), version, at=4) == message


@pytest.mark.parametrize(("cls", "version"), VERSIONED)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_the_parts_of_a_message_join_to_its_bytes(cls: type[Message], version: int, data: st.DataObject) -> None:
    message = data.draw(valid(cls, version))
    parts = encode_parts(message, version)
    assert all(isinstance(part, bytes) for part in parts)
    assert b"".join(cast("list[bytes]", parts)) == encode(message, version)
