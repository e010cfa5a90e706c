"""Lines that can be cut: what is answered last never arrives, or nothing comes through for a while."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

HOST = "127.0.0.1"
#: How long requests still come through after answers no longer do.
MUTED_S = 0.05
CHUNK_BYTES = 64 * 1024
#: Where a request's header has the name of who sends it: behind the frame's size, api key, version and correlation id.
NAME_AT = 12


class Proxy:
    """Forwards every connection to one of ``targets`` ("HOST:PORT"), in a thread of its own."""

    def __init__(self, *targets: str) -> None:
        self.targets = list(targets)
        self.port = 0
        #: Whose bytes wait, both ways, by the name in their first request; and until when.
        self._is_held: Callable[[str], bool] = _nobody
        self._is_free = asyncio.Event()
        self._loop = asyncio.new_event_loop()
        self._lines: set[_Line] = set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._listening = threading.Event()
        self._server: asyncio.Server | None = None
        self._connections = 0

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def cut(self) -> None:
        """Let no answer through any more, and then end every connection there is."""
        self._do(self._cut()).result()

    async def _cut(self) -> None:
        lines = list(self._lines)
        for line in lines:
            line.is_mute = True
        await asyncio.sleep(MUTED_S)
        for line in lines:
            line.close()

    def hold(self, is_held: Callable[[str], bool] | None = None) -> None:
        """Carry nothing for those it applies to, or for nobody at all, until ``let_through``: late, but not lost."""
        self._do(self._hold(is_held or _everybody)).result()

    async def _hold(self, is_held: Callable[[str], bool]) -> None:
        self._is_free.clear()
        self._is_held = is_held

    def let_through(self) -> None:
        self._do(self._let_through()).result()

    async def _let_through(self) -> None:
        self._is_held = _nobody
        self._is_free.set()

    def close_door(self) -> None:
        """Refuse whoever comes, as the machine of a process that has ended does."""
        self._do(self._close_door()).result()

    async def _close_door(self) -> None:
        assert self._server is not None
        server, self._server = self._server, None
        for listener in server.sockets:
            self._loop.remove_reader(listener)
        await asyncio.sleep(0)  # A server that is closed loses the sockets of those it has just let in.
        server.close()

    def open_door(self) -> None:
        """Listen again, where it was."""
        self._do(self._listen()).result()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._connected, HOST, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def _do(self, what: Coroutine[Any, Any, None]) -> "Future[None]":
        return asyncio.run_coroutine_threadsafe(what, self._loop)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._listen())
        self._listening.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._end())
        self._loop.close()

    async def _end(self) -> None:
        if self._server is not None:
            await self._close_door()
        await self._let_through()
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for line in list(self._lines):
                line.close()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        host, _, port = self.targets[self._connections % len(self.targets)].rpartition(":")
        try:
            there = await asyncio.open_connection(host, int(port))
        except OSError:
            await _ended(writer)
            return
        line = _Line(self, writer, there[1])
        self._lines.add(line)
        try:
            await asyncio.gather(line.carry(reader, there[1]), line.carry(there[0], writer, is_answer=True))
        finally:
            self._lines.discard(line)
            await _ended(writer, there[1])

    async def until_free(self, name: str) -> None:
        """Return once nothing holds back who is called so."""
        while self._is_held(name):
            await self._is_free.wait()

    def __enter__(self) -> Self:
        self._thread.start()
        self._listening.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


class _Line:
    """One client's connection, and ours to its target."""

    def __init__(self, proxy: Proxy, *writers: asyncio.StreamWriter) -> None:
        self.is_mute = False
        self._proxy = proxy
        self._name = ""
        self._writers = writers

    async def carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool = False
    ) -> None:
        try:
            while data := await reader.read(CHUNK_BYTES):
                if not (is_answer or self._name):
                    self._name = _name_in(data)
                await self._proxy.until_free(self._name)
                if not (is_answer and self.is_mute):
                    writer.write(data)
                    await writer.drain()
        except OSError:
            pass
        self.close()

    def close(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


async def _ended(*writers: asyncio.StreamWriter) -> None:
    """Cut these connections; their sockets are closed when this returns, and not a turn of the loop later."""
    for writer in writers:
        writer.transport.abort()
    await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)


def _name_in(request: bytes) -> str:
    """The client id of a Kafka request; of any other bytes, something that is nobody's."""
    size = int.from_bytes(request[NAME_AT : NAME_AT + 2], "big")
    return request[NAME_AT + 2 : NAME_AT + 2 + size].decode("latin-1")


def _nobody(name: str) -> bool:
    return False


def _everybody(name: str) -> bool:
    return True
