"""One accepted connection: frames come in, answers go out, and neither side can drown the other."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import cast

from millstream.model.errors import CorruptFrame
from millstream.net.frames import SCRATCH_BYTES, BufferPool, FrameReader
from millstream.net.outbox import Outbox, Part, SocketOutbox, TransportOutbox

#: How much is read from one connection before the others have their turn.
TURN_BYTES = 512 * 1024
#: The same of one that rests in between.
PACED_TURN_BYTES = 64 * 1024


class Limits:
    """What all connections of a listener share: the scratch buffer, the pool, the bounds.

    The system's own buffers for a socket are as large as it chooses where they are given as -1.
    """

    def __init__(
        self,
        frame_bytes_max: int,
        queued_bytes_max: int = -1,
        unsent_bytes_max: int = 1024 * 1024,
        *,
        send_buffer_bytes: int = -1,
        receive_buffer_bytes: int = -1,
    ) -> None:
        self.frame_bytes_max = frame_bytes_max
        self.unsent_bytes_max = unsent_bytes_max
        self.send_buffer_bytes = send_buffer_bytes
        self.receive_buffer_bytes = receive_buffer_bytes
        self.pool = BufferPool(queued_bytes_max)
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))

    def size_buffers(self, sock: socket.socket) -> None:
        """Have the system hold as much for this socket as was asked for, or as much as it allows."""
        for option, size in ((socket.SO_SNDBUF, self.send_buffer_bytes), (socket.SO_RCVBUF, self.receive_buffer_bytes)):
            if size >= 0:
                sock.setsockopt(socket.SOL_SOCKET, option, size)


class FramedPeer(asyncio.BufferedProtocol):
    """Reads frames and hands each to ``frame_received``; sends what ``send`` is given, in order.

    Reading stops while the peer does not take its answers, so a slow reader holds up itself alone.
    """

    transport: asyncio.Transport

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: Limits) -> None:
        self.loop = loop
        self.is_closed = False
        self.host = "?"
        self.address = "?"
        self.last_active_s = loop.time()
        self._limits = limits
        self._reader = FrameReader(limits.scratch, limits.pool, limits.frame_bytes_max, self.frame_received)
        self._outbox: Outbox
        self._reading_paused = False
        self._waiting_for_room = False
        self._in_large_frame = False
        self._turn_bytes = 0
        self._rest_s = 0.0
        self._is_yielding = False

    # What a subclass says.

    def frame_received(self, frame: memoryview) -> None:
        """A whole frame; its bytes are valid only during this call."""
        raise NotImplementedError

    def turn_ended(self) -> None:
        """Every frame of this read has been handed over: the moment to send their answers together."""

    def closed(self) -> None:
        """The connection is gone."""

    def is_overfull(self) -> bool:
        """Whether no more frames should be read for now; asked after each turn and after each drain."""
        return False

    def refused(self, reason: str) -> None:
        """The peer sent what cannot be a frame, and is about to be cut off."""

    # What a subclass calls.

    def send(self, parts: Sequence[Part]) -> None:
        """Send these after everything sent before."""
        if not self.is_closed:
            self._outbox.send(parts)

    def close(self) -> None:
        """Cut the connection; answers not yet taken are lost."""
        if not self.is_closed:
            self._let_go()
            self.transport.abort()

    def keep_frame(self) -> Callable[[], None] | None:
        """In ``frame_received``: have the frame stay valid until what this returns is called; None if it cannot."""
        return self._reader.keep()

    def pace(self, rest_s: float) -> None:
        """From now on, rest for so long after each turn of reading; 0 for not at all."""
        self._rest_s = rest_s

    def pace_reading(self) -> None:
        """Read on, or stop reading, as the fill of what waits says."""
        if self.is_closed:
            return
        should_pause = (
            self._is_yielding
            or self._waiting_for_room
            or self._outbox.pending_bytes > self._limits.unsent_bytes_max
            or self.is_overfull()
        )
        if should_pause != self._reading_paused:
            self._reading_paused = should_pause
            if should_pause:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.host = str(peer[0])
            self.address = f"{peer[0]}:{peer[1]}"
        sock = transport.get_extra_info("socket")
        if sock is not None:
            self._limits.size_buffers(sock)
        if sock is None or transport.get_extra_info("sslcontext") is not None:
            self._outbox = TransportOutbox(self.transport)
        else:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._outbox = SocketOutbox(self.loop, sock.fileno(), self.pace_reading, self.close)

    def get_buffer(self, sizehint: int) -> memoryview:
        buffer = self._reader.buffer()
        return buffer[:PACED_TURN_BYTES] if self._rest_s else buffer

    def buffer_updated(self, count: int) -> None:
        self.last_active_s = self.loop.time()
        self._turn_bytes += count
        try:
            self._reader.received(count)
        except CorruptFrame as fault:
            self.refused(str(fault))
            self.turn_ended()
            self.close()
            return
        self.turn_ended()
        if self.is_closed:
            return
        if self._reader.in_large_frame != self._in_large_frame:
            self._large_frame_changed()
        if self._turn_bytes >= (PACED_TURN_BYTES if self._rest_s else TURN_BYTES):
            self._end_turn()
        if self._waiting_for_room or self._is_yielding or self._outbox.pending_bytes or self.is_overfull():
            self.pace_reading()

    def _large_frame_changed(self) -> None:
        self._in_large_frame = not self._in_large_frame
        if self._in_large_frame and not self._limits.pool.has_room():
            self._waiting_for_room = True  # Only at its beginning: a frame half read always goes on.
            self._limits.pool.when_room(self._room_came)

    def _end_turn(self) -> None:
        """This connection has had its share: the loop would go on reading it while others wait."""
        if not self._is_yielding:
            self._is_yielding = True
            if self._rest_s:
                self.loop.call_later(self._rest_s, self._begin_turn)
            else:
                self.loop.call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._is_yielding = False
        self._turn_bytes = 0
        self.pace_reading()

    def resume_writing(self) -> None:
        self.pace_reading()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        if not self.is_closed:
            self._let_go()
        self.closed()

    def _let_go(self) -> None:
        self.is_closed = True
        self._limits.pool.forget(self._room_came)
        self._reader.close()
        self._outbox.close()

    def _room_came(self) -> None:
        self._waiting_for_room = False
        self.pace_reading()
