"""Bytes that are no message: refused as CorruptFrame and nothing else, at once and for little memory."""

import contextlib
import random
import time
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.model.errors import CorruptFrame
from millstream.protocol.codec import decode, encode
from millstream.protocol.headers import decode_request_header
from millstream.protocol.messages import REQUESTS
from millstream.protocol.schema import Message
from tests.properties.strategies import VERSIONED, valid
from tests.unit.protocol.recorded import RECORDED, RecordedFrame

#: Lengths as an attacker would claim them, in either encoding.
_HUGE = [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\x7f\xff", b"\x80\x00\x00\x00"]


@contextlib.contextmanager
def _little_memory(bytes_max: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < bytes_max
    finally:
        tracemalloc.stop()


def _try_frame(frame: bytes) -> None:
    """Decode as a broker would; anything but success or CorruptFrame is a failure of ours."""
    with contextlib.suppress(CorruptFrame):
        header = decode_request_header(frame)
        cls = REQUESTS.get(header.api_key)
        if cls is not None and cls.VERSIONS[0] <= header.api_version <= cls.VERSIONS[1]:
            decode(cls, frame, header.api_version, header.body_at)


@pytest.mark.parametrize(("cls", "version"), VERSIONED)
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_a_message_cut_anywhere_is_refused(cls: type[Message], version: int, data: st.DataObject) -> None:
    encoded = encode(data.draw(valid(cls, version)), version)
    for end in range(len(encoded)):
        with pytest.raises(CorruptFrame):
            decode(cls, encoded[:end], version)


@pytest.mark.parametrize(("cls", "version"), VERSIONED)
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_a_huge_length_anywhere_costs_nothing(cls: type[Message], version: int, data: st.DataObject) -> None:
    """Whatever a claimed length is put over, no more is allocated than the bytes could fill."""
    encoded = encode(data.draw(valid(cls, version)), version)
    decode(cls, encoded, version)
    with _little_memory(200_000):
        for at in range(min(len(encoded), 24)):
            for huge in _HUGE:
                with contextlib.suppress(CorruptFrame):
                    decode(cls, encoded[:at] + huge + encoded[at + len(huge) :], version)


@pytest.mark.parametrize(("cls", "version"), VERSIONED)
@settings(max_examples=2, deadline=None)
@given(noise=st.binary(max_size=64))
def test_noise_is_a_message_or_refused(cls: type[Message], version: int, noise: bytes) -> None:
    with contextlib.suppress(CorruptFrame):
        decode(cls, noise, version)


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda each: f"{each.client}-{each.request}-v{each.version}")
def test_mutated_frames_of_real_clients_never_break_the_decoder(recorded: RecordedFrame) -> None:
    """Bytes flipped, cut, repeated and overwritten by a seeded mutator, five hundred times over each frame."""
    chance = random.Random(recorded.request + str(recorded.version))
    _try_frame(recorded.frame)
    with _little_memory(500_000):
        for _ in range(500):
            frame = bytearray(recorded.frame)
            for _ in range(chance.randint(1, 4)):
                _mutate(frame, chance)
            _try_frame(bytes(frame))


def _mutate(frame: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(frame) + 1)
    match chance.randrange(4):
        case 0:
            frame[at : at + 1] = bytes([chance.randrange(256)])
        case 1:
            del frame[at : at + chance.randint(1, 8)]
        case 2:
            frame[at:at] = frame[at : at + chance.randint(1, 32)]
        case _:
            huge = chance.choice(_HUGE)
            frame[at : at + len(huge)] = huge


@pytest.mark.parametrize(("cls", "version"), VERSIONED)
def test_a_great_deal_of_one_byte_is_dealt_with_at_once(cls: type[Message], version: int) -> None:
    """The worst case of long varints, deep counts and endless tags stays linear."""
    for byte in (0x00, 0x01, 0x7F, 0x80, 0xFF):
        started_s = time.perf_counter()
        with contextlib.suppress(CorruptFrame):
            decode(cls, bytes([byte]) * 50_000, version)
        assert time.perf_counter() - started_s < 2
