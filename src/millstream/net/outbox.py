"""What leaves a connection, in order: bytes, and slices of files that are sent without passing through Python."""

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from millstream.model.slices import FileSlice

#: How much one connection may send in one turn of the loop before the others have theirs.
TURN_BYTES = 256 * 1024


Part = bytes | bytearray | memoryview | FileSlice


class Outbox(Protocol):
    """Where a connection's answers go."""

    @property
    def pending_bytes(self) -> int:
        """What the peer has not taken yet."""
        ...

    def send(self, parts: Sequence[Part]) -> None:
        """Send these next; what the peer is too slow for waits here."""
        ...

    def close(self) -> None:
        """Drop what waits."""
        ...


class SocketOutbox:
    """Writes to a socket directly, so that files go out by sendfile in their turn among the bytes.

    It has a descriptor of its own for the socket: the transport reads, this writes, and each has its own
    registration with the loop.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, fd: int, on_drained: Callable[[], None], on_failed: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._socket = socket.socket(fileno=os.dup(fd))
        self._socket.setblocking(False)
        self._on_drained = on_drained
        self._on_failed = on_failed
        self._queue: deque[Part] = deque()
        self._is_waiting = False
        self._is_closed = False
        self.pending_bytes = 0

    def send(self, parts: Sequence[Part]) -> None:
        if self._is_closed:
            return
        if not self._queue:
            if len(parts) == 1:
                if type(parts[0]) is bytes:
                    self._send_now(parts[0])
                    return
            elif FileSlice not in map(type, parts):
                self._send_now(b"".join(parts))  # type: ignore[arg-type]
                return
        self._queue.extend(parts)
        self.pending_bytes += sum(map(len, parts))
        if not self._is_waiting:
            self._pump()

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._stop_waiting()
        self._queue.clear()
        self.pending_bytes = 0
        self._socket.close()

    def _send_now(self, data: bytes) -> None:
        """The common case, answers without files and nothing before them, needs no queue."""
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._on_failed()
            return
        if sent < len(data):
            self._queue.append(memoryview(data)[sent:])
            self.pending_bytes += len(data) - sent
            self._wait()

    def _pump(self) -> None:
        """Send until the socket is full, this turn's share is used, or nothing is left."""
        share = TURN_BYTES
        try:
            while self._queue and share > 0:
                sent = self._send_slice(share) if isinstance(self._queue[0], FileSlice) else self._send_bytes()
                share -= sent
                self.pending_bytes -= sent
        except BlockingIOError:
            pass
        except OSError:
            self._on_failed()
            return
        if self._queue:
            self._wait()
            return
        if self._is_waiting:
            self._stop_waiting()
            self._on_drained()

    def _send_bytes(self) -> int:
        run: list[bytes | bytearray | memoryview] = []
        queue = self._queue
        while queue and not isinstance(queue[0], FileSlice):
            run.append(queue.popleft())  # type: ignore[arg-type]
        data = run[0] if len(run) == 1 else b"".join(run)
        flags = socket.MSG_MORE if queue else 0
        try:
            sent = self._socket.send(data, flags)
        except BlockingIOError:
            queue.appendleft(data)
            raise
        if sent < len(data):
            queue.appendleft(memoryview(data)[sent:])
        return sent

    def _send_slice(self, share: int) -> int:
        head = self._queue[0]
        assert isinstance(head, FileSlice)
        fd = head.file.fileno()
        if fd < 0:
            self._queue[0] = head.read()
            return 0
        if head.length == 0:
            self._queue.popleft()
            return 0
        sent = os.sendfile(self._socket.fileno(), fd, head.position, min(head.length, share))
        if sent == 0:
            raise OSError("a file became shorter than the slice of it that was promised")
        head.position += sent
        head.length -= sent
        if head.length == 0:
            self._queue.popleft()
        return sent

    def _wait(self) -> None:
        if not self._is_waiting:
            self._is_waiting = True
            self._loop.add_writer(self._socket.fileno(), self._pump)

    def _stop_waiting(self) -> None:
        if self._is_waiting:
            self._is_waiting = False
            self._loop.remove_writer(self._socket.fileno())


class TransportOutbox:
    """Writes through the transport: for TLS, and for the in-memory network of tests."""

    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self._transport = transport

    @property
    def pending_bytes(self) -> int:
        return self._transport.get_write_buffer_size()

    def send(self, parts: Sequence[Part]) -> None:
        self._transport.writelines([part.read() if isinstance(part, FileSlice) else part for part in parts])

    def close(self) -> None:
        """The transport drops its own buffer when it is closed."""
