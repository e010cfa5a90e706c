"""Frames out of a byte stream: a four-byte length, then that many bytes.

Each byte is read once.  What arrives small is read into one scratch buffer that all connections of a loop
share; a frame too large for it is read straight into a buffer of its own, lent by the pool.  Nothing is
allocated by a length that a client merely claims: a lent buffer grows as its bytes arrive.

Invariant: a frame is valid only during the call that hands it over; whoever wants its bytes for longer copies them,
or keeps a large frame's buffer (``keep``).
"""

import struct
from collections.abc import Callable
from functools import partial

from millstream.model.errors import CorruptFrame

_LENGTH = struct.Struct(">i")
SCRATCH_BYTES = 64 * 1024

FrameHandler = Callable[[memoryview], None]


class BufferPool:
    """Buffers for large frames, lent for one frame at a time and kept for the next.

    A kept buffer is already paid for, so it may be lent whole; a new one starts small and grows.
    """

    FIRST_BYTES = 64 * 1024
    GROWTH = 4

    def __init__(self, lent_bytes_max: int, kept_bytes_max: int = 8 * 1024 * 1024) -> None:
        self.lent_bytes = 0
        self._loans = 0
        self._lent_bytes_max = lent_bytes_max
        self._kept: list[bytearray] = []
        self._kept_bytes = 0
        self._kept_bytes_max = kept_bytes_max
        self._waiting: list[Callable[[], None]] = []

    def has_room(self) -> bool:
        """Whether another large frame may be begun; those already begun always go on."""
        return self._lent_bytes_max < 0 or self.lent_bytes < self._lent_bytes_max

    def when_room(self, callback: Callable[[], None]) -> None:
        """Call back, in turn, once a large frame may be begun."""
        self._waiting.append(callback)

    def forget(self, callback: Callable[[], None]) -> None:
        """Whoever waited no longer does."""
        if callback in self._waiting:
            self._waiting.remove(callback)

    def lend(self, wanted: int) -> bytearray:
        """A buffer for a frame of ``wanted`` bytes: the smallest kept one that holds it, or a new small one."""
        fitting = [buffer for buffer in self._kept if len(buffer) >= wanted]
        if fitting:
            buffer = min(fitting, key=len)
            self._kept.remove(buffer)
            self._kept_bytes -= len(buffer)
        else:
            buffer = bytearray(min(wanted, self.FIRST_BYTES))
        self.lent_bytes += len(buffer)
        self._loans += 1
        return buffer

    def grow(self, buffer: bytearray, wanted: int) -> bytearray:
        """A larger buffer that begins with the bytes of ``buffer``, which is full."""
        larger = bytearray(min(wanted, len(buffer) * self.GROWTH))
        larger[: len(buffer)] = buffer
        self.lent_bytes += len(larger) - len(buffer)
        return larger

    def give_back(self, buffer: bytearray) -> None:
        """End a loan."""
        self.lent_bytes -= len(buffer)
        self._loans -= 1
        if self._kept_bytes + len(buffer) <= self._kept_bytes_max:
            self._kept.append(buffer)
            self._kept_bytes += len(buffer)
        # Those who wait hold a little each; when nobody else holds anything, one of them must go on.
        while self._waiting and (self.has_room() or self._loans == len(self._waiting)):
            self._waiting.pop(0)()


class FrameReader:
    """One connection's side of it: ``buffer`` says where to read to, ``received`` hands over whole frames."""

    def __init__(self, scratch: memoryview, pool: BufferPool, frame_bytes_max: int, on_frame: FrameHandler) -> None:
        self._scratch = scratch
        self._pool = pool
        self._frame_bytes_max = frame_bytes_max
        self._on_frame = on_frame
        self._rest = b""  # The beginning of a frame that the scratch buffer will hold whole.
        self._large: bytearray | None = None
        self._large_view = memoryview(b"")
        #: The buffer of a large frame while it is handed over, if nobody keeps it.
        self._handed: bytearray | None = None
        #: Whether a frame too large for the scratch buffer is being read.
        self.in_large_frame = False
        self._filled = 0
        self._wanted = 0
        self._is_closed = False

    def buffer(self) -> memoryview:
        """Where the next bytes belong; valid until ``received``."""
        if self._large is not None:
            return self._large_view[self._filled :]
        rest = self._rest
        if not rest:
            return self._scratch
        self._scratch[: len(rest)] = rest
        return self._scratch[len(rest) :]

    def received(self, count: int) -> None:
        """``count`` bytes are in ``buffer``; raises CorruptFrame when they announce an impossible frame."""
        if self._large is not None:
            self._filled += count
            if self._filled == self._wanted:
                self._finish_large()
            elif self._filled == len(self._large):
                self._set_large(self._pool.grow(self._large, self._wanted))
            return
        scratch, on_frame = self._scratch, self._on_frame
        at, end = 0, len(self._rest) + count
        while end - at >= 4 and not self._is_closed:
            (length,) = _LENGTH.unpack_from(scratch, at)
            if not 0 <= length <= self._frame_bytes_max:
                raise CorruptFrame(f"a frame of {length} bytes; at most {self._frame_bytes_max} are taken")
            if length > end - at - 4:
                if length + 4 > SCRATCH_BYTES:
                    self._begin_large(length, scratch[at + 4 : end])
                    at = end
                break
            on_frame(scratch[at + 4 : at + 4 + length])
            at += 4 + length
        self._rest = bytes(scratch[at:end]) if at < end else b""

    def keep(self) -> Callable[[], None] | None:
        """While a large frame is handed over: it stays valid until what this returns is called.

        None for a frame that came in the scratch buffer, which others will be read into.
        """
        buffer, self._handed = self._handed, None
        return None if buffer is None else partial(self._pool.give_back, buffer)

    def close(self) -> None:
        """Give back what was lent; nothing more will come, and what is left of this read is not looked at."""
        self._is_closed = True
        if self._large is not None:
            self._pool.give_back(self._large)
            self._large = None

    def _begin_large(self, length: int, first: memoryview) -> None:
        self._wanted = length
        self._filled = 0
        self._set_large(self._pool.lend(length))
        while self._large is not None and len(first) >= len(self._large) - self._filled:
            self._large_view[self._filled : len(self._large)] = first[: len(self._large) - self._filled]
            first = first[len(self._large) - self._filled :]
            self._filled = len(self._large)
            self._set_large(self._pool.grow(self._large, self._wanted))
        self._large_view[self._filled : self._filled + len(first)] = first
        self._filled += len(first)

    def _set_large(self, buffer: bytearray) -> None:
        self._large = buffer
        self.in_large_frame = True
        self._large_view = memoryview(buffer)[: self._wanted]

    def _finish_large(self) -> None:
        buffer, view = self._large, self._large_view
        assert buffer is not None
        self._large, self._large_view = None, memoryview(b"")
        self.in_large_frame = False
        self._handed = buffer
        try:
            self._on_frame(view)
        finally:
            if self._handed is not None:
                self._handed = None
                self._pool.give_back(buffer)
