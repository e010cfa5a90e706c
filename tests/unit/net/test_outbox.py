"""Bytes and file slices leave in order, whatever the peer's pace."""

import asyncio
import socket
from pathlib import Path

import pytest

from millstream.model.slices import FileSlice
from millstream.net.outbox import SocketOutbox
from millstream.storage.files import OsFiles


async def drain(reader: socket.socket, count: int) -> bytes:
    loop = asyncio.get_running_loop()
    got = bytearray()
    while len(got) < count:
        data = await loop.sock_recv(reader, 1 << 20)
        assert data, "the outbox closed the connection early"
        got += data
    return bytes(got)


def test_bytes_and_slices_leave_in_order_and_the_end_is_told(tmp_path: Path) -> None:
    content = bytes(range(256)) * 40_000  # 10 MB: more than any socket buffer.
    (tmp_path / "log").write_bytes(content)

    async def scenario() -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        drained = asyncio.Event()
        loop = asyncio.get_running_loop()
        outbox = SocketOutbox(loop, ours.fileno(), drained.set, lambda: pytest.fail("sending failed"))
        file = OsFiles().open(str(tmp_path / "log"))
        outbox.send([b"head", FileSlice(file, 10, 5_000_000), b"middle"])
        outbox.send([b"alone"])
        outbox.send([FileSlice(file, 0, 0), FileSlice(file, 7_000_000, 3_000_000), b"tail"])
        assert outbox.pending_bytes > 0
        expected = b"head" + content[10:5_000_010] + b"middle" + b"alone" + content[7_000_000:10_000_000] + b"tail"
        assert await drain(theirs, len(expected)) == expected
        await drained.wait()
        assert outbox.pending_bytes == 0
        outbox.close()
        ours.close()
        theirs.close()

    asyncio.run(scenario())


def test_a_peer_that_is_gone_is_told_once_and_nothing_is_raised() -> None:
    async def scenario() -> int:
        ours, theirs = socket.socketpair()
        failures: list[int] = []
        loop = asyncio.get_running_loop()

        def failed() -> None:
            failures.append(1)
            outbox.close()

        outbox = SocketOutbox(loop, ours.fileno(), lambda: None, failed)
        theirs.close()
        outbox.send([b"lost"])
        outbox.send([b"lost"])
        ours.close()
        return len(failures)

    assert asyncio.run(scenario()) == 1


def test_a_slice_longer_than_its_file_fails_the_connection(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"short")

    async def scenario() -> int:
        ours, theirs = socket.socketpair()
        failures: list[int] = []
        loop = asyncio.get_running_loop()
        outbox = SocketOutbox(loop, ours.fileno(), lambda: None, lambda: failures.append(1))
        file = OsFiles().open(str(tmp_path / "log"))
        outbox.send([FileSlice(file, 0, 10)])
        outbox.close()
        ours.close()
        theirs.close()
        return len(failures)

    assert asyncio.run(scenario()) == 1
