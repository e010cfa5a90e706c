"""A line between clients and broker that can be cut: what the broker answers last never arrives."""

import asyncio
import threading
from types import TracebackType
from typing import Self

#: How long requests still come through after answers no longer do.
MUTED_S = 0.05
CHUNK_BYTES = 64 * 1024


class Proxy:
    """Forwards every connection to ``target`` ("HOST:PORT", set before clients come), in a thread of its own."""

    def __init__(self) -> None:
        self.target = ""
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._lines: set[_Line] = set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._listening = threading.Event()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Let no answer through any more, and then end every connection there is."""
        asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result()

    async def _cut(self) -> None:
        lines = list(self._lines)
        for line in lines:
            line.is_mute = True
        await asyncio.sleep(MUTED_S)
        for line in lines:
            line.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._connected, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._listening.set()
        self._loop.run_forever()
        server.close()
        for line in list(self._lines):
            line.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self.target.rpartition(":")
        try:
            there = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.transport.abort()
            return
        line = _Line(writer, there[1])
        self._lines.add(line)
        try:
            await asyncio.gather(line.carry(reader, there[1]), line.carry(there[0], writer, is_answer=True))
        finally:
            self._lines.discard(line)
            line.close()

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
    """One client's connection, and ours to the broker."""

    def __init__(self, *writers: asyncio.StreamWriter) -> None:
        self.is_mute = False
        self._writers = writers

    async def carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool = False
    ) -> None:
        try:
            while data := await reader.read(CHUNK_BYTES):
                if not (is_answer and self.is_mute):
                    writer.write(data)
                    await writer.drain()
        except OSError:
            pass
        self.close()

    def close(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
