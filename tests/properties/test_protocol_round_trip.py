"""Decoding undoes encoding, for every message at every version."""

from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.protocol.codec import decode, encode, encode_parts
from millstream.protocol.schema import Message
from tests.properties.strategies import VERSIONED, valid


@pytest.mark.parametrize(("cls", "version"), VERSIONED)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_every_version_survives_a_round_trip(cls: type[Message], version: int, data: st.DataObject) -> None:
    """What a version carries comes back as it was, whole or in parts, from any buffer and any place in it."""
    message = data.draw(valid(cls, version))
    encoded = encode(message, version)
    assert b"".join(cast("list[bytes]", encode_parts(message, version))) == encoded
    assert decode(cls, encoded, version) == message
    assert decode(cls, memoryview(bytearray(b"head" + encoded + b"tail")), version, at=4) == message
