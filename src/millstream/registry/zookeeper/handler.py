"""How kazoo reaches threads and sockets, and how its callbacks reach the loop."""

import asyncio
import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

#: How long one server may take to accept a connection.
CONNECT_TIMEOUT_S = 3.0


class LoopHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's way to threads and sockets, except that callbacks need no thread: they run on the loop."""

    running = True

    def __init__(self, loop: asyncio.AbstractEventLoop, first_word_s: float) -> None:
        """A server that took a connection has ``first_word_s`` for its first word: while it starts it may never say it,
        and kazoo waits for one that is alone as long as a session lasts.
        """
        super().__init__()
        self.completion_queue = self.callback_queue = self
        self._loop = loop
        self._lock = threading.Lock()
        self._due: list[Callable[[], object]] = []
        self._connection: socket.socket | None = None
        self._first_word_s = first_word_s
        self._is_silent = False  #: the server, so far

    def put(self, function: Callable[[], object]) -> None:
        """Call on the loop, in the order of these calls; one wake-up serves all that are due."""
        with self._lock:
            self._due.append(function)
            if len(self._due) == 1:
                with suppress(RuntimeError):  # The loop was closed before us, so nobody waits any more.
                    self._loop.call_soon_threadsafe(self._call)

    def _call(self) -> None:
        with self._lock:
            due, self._due = self._due, []
        for function in due:
            self._loop.call_soon(function)

    def hang_up(self) -> None:
        """Let kazoo's thread find its connection broken."""
        if self._connection is not None:
            with suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)

    # What kazoo calls.

    def start(self) -> None:
        """There is nothing to start."""

    def stop(self) -> None:
        """There is nothing to stop."""

    def dispatch_callback(self, callback: Any) -> None:
        """A watch fired."""
        self.put(partial(callback.func, *callback.args))

    def create_connection(self, *args: Any, **options: Any) -> socket.socket:
        options["timeout"] = min(options["timeout"], CONNECT_TIMEOUT_S)
        made: socket.socket = super().create_connection(*args, **options)
        self._connection = made
        self._is_silent = True
        return made

    def select(
        self, readers: list[Any], writers: list[Any], others: list[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Which of them are ready, as ``select.select`` answers it.

        kazoo asks four times for a request and its answer, and its own way is to make a selector each time.
        """
        if self._is_silent and readers and timeout is not None:
            timeout = min(timeout, self._first_word_s)
        poll = select.poll()
        for reader in readers:
            poll.register(reader, select.POLLIN)
        for writer in writers:
            poll.register(writer, select.POLLOUT)
        ready = {file for file, _ in poll.poll(None if timeout is None else timeout * 1000)}
        self._is_silent &= not (readers and ready)
        return (
            [reader for reader in readers if reader.fileno() in ready],
            [writer for writer in writers if writer.fileno() in ready],
            [],
        )
