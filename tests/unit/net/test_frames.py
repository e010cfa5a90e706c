"""Frames come out of the stream whole and in order, however it was cut."""

import struct
from collections.abc import Callable

import pytest

from millstream.model.errors import CorruptFrame
from millstream.net.frames import SCRATCH_BYTES, BufferPool, FrameReader


def framed(*payloads: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)


class Stream:
    """A connection's bytes, fed in pieces; the frames that came out."""

    def __init__(self, pool: BufferPool | None = None, frame_bytes_max: int = 10 << 20) -> None:
        self.frames: list[bytes] = []
        self.pool = pool or BufferPool(-1)
        self.reader = FrameReader(
            memoryview(bytearray(SCRATCH_BYTES)),
            self.pool,
            frame_bytes_max,
            lambda frame: self.frames.append(bytes(frame)),
        )

    def feed(self, data: bytes) -> None:
        while data:
            room = self.reader.buffer()
            count = min(len(room), len(data))
            room[:count] = data[:count]
            self.reader.received(count)
            data = data[count:]


@pytest.mark.parametrize("piece", [1, 2, 3, 5, 7, 1000])
def test_small_frames_survive_any_cut(piece: int) -> None:
    payloads = [b"", b"a", b"bc" * 50, b"", b"d" * 3]
    stream = Stream()
    data = framed(*payloads)
    for at in range(0, len(data), piece):
        stream.feed(data[at : at + piece])
    assert stream.frames == payloads


@pytest.mark.parametrize("size", [SCRATCH_BYTES - 5, SCRATCH_BYTES - 4, SCRATCH_BYTES - 3, 300_000, 1_500_000])
@pytest.mark.parametrize("piece", [4, 1000, 70_000, 5_000_000])
def test_large_frames_survive_any_cut(size: int, piece: int) -> None:
    payloads = [b"before", bytes(range(256)) * (size // 256) + b"x" * (size % 256), b"after"]
    stream = Stream()
    data = framed(*payloads)
    for at in range(0, len(data), piece):
        stream.feed(data[at : at + piece])
    assert stream.frames == payloads


def test_a_claimed_length_allocates_nothing_before_its_bytes_arrive() -> None:
    stream = Stream(frame_bytes_max=100 << 20)
    stream.feed(struct.pack(">i", 100 << 20) + b"x")
    assert stream.pool.lent_bytes <= BufferPool.FIRST_BYTES


def test_a_kept_buffer_is_lent_again() -> None:
    pool = BufferPool(-1)
    first = pool.lend(200_000)
    first = pool.grow(first, 200_000)
    pool.give_back(first)
    assert pool.lend(200_000) is first
    assert pool.lent_bytes == len(first)


@pytest.mark.parametrize("length", [-1, (10 << 20) + 1, 2**31 - 1, -(2**31)])
def test_an_impossible_length_is_refused(length: int) -> None:
    with pytest.raises(CorruptFrame):
        Stream().feed(struct.pack(">i", length))


def test_closing_in_the_middle_of_a_large_frame_gives_its_buffer_back() -> None:
    stream = Stream()
    stream.feed(struct.pack(">i", 1 << 20) + b"x" * 1000)
    assert stream.pool.lent_bytes > 0
    stream.reader.close()
    assert stream.pool.lent_bytes == 0


def test_who_waits_for_room_is_called_in_turn() -> None:
    pool = BufferPool(lent_bytes_max=100_000)
    first, second = pool.lend(64 * 1024), pool.lend(64 * 1024)
    called: list[str] = []
    assert not pool.has_room()
    pool.when_room(lambda: called.append("a"))
    pool.when_room(lambda: called.append("b"))
    pool.give_back(first)
    pool.give_back(second)
    assert called == ["a", "b"]


def test_when_all_wait_one_goes_on() -> None:
    """Two connections each hold a little and both wait: with nobody else to finish, the first must go on."""
    pool = BufferPool(lent_bytes_max=10)
    active, waiting = pool.lend(64 * 1024), [pool.lend(64 * 1024), pool.lend(64 * 1024)]
    called: list[str] = []
    pool.when_room(lambda: called.append("a"))
    pool.when_room(lambda: called.append("b"))
    pool.give_back(active)
    assert called == ["a"]
    pool.give_back(waiting[0])
    assert called == ["a", "b"]


def test_a_reader_closed_by_its_own_frame_looks_no_further() -> None:
    """A frame is refused, the connection closed, and a large frame that began in the same read leaves no loan."""
    stream = Stream()
    stream.reader = FrameReader(
        memoryview(bytearray(SCRATCH_BYTES)), stream.pool, 10 << 20, lambda frame: stream.reader.close()
    )
    stream.feed(framed(b"refused") + struct.pack(">i", 1 << 20) + b"x" * 100)
    assert stream.pool.lent_bytes == 0


def test_a_large_frame_that_is_kept_stays_as_it_is_until_it_is_let_go() -> None:
    pool = BufferPool(-1)
    kept: list[tuple[memoryview, Callable[[], None] | None]] = []
    stream = Stream(pool)
    reader = FrameReader(
        memoryview(bytearray(SCRATCH_BYTES)), pool, 10 << 20, lambda frame: kept.append((frame, reader.keep()))
    )
    stream.reader = reader
    stream.feed(framed(b"a" * 300_000, b"b" * 300_000, b"c" * 100))
    assert [bytes(frame[:1]) for frame, _ in kept[:2]] == [b"a", b"b"]
    assert all(frame == frame[:1].tobytes() * 300_000 for frame, _ in kept[:2])
    lent = pool.lent_bytes
    assert lent >= 600_000
    for _, let_go in kept[:2]:
        assert let_go is not None
        let_go()
    assert pool.lent_bytes == 0
    assert kept[2][1] is None, "what came small will be read over, and is not to be kept"


def test_outside_the_call_that_hands_it_over_no_frame_can_be_kept() -> None:
    stream = Stream()
    stream.feed(framed(b"a" * 300_000))
    assert stream.reader.keep() is None
    assert stream.pool.lent_bytes == 0
