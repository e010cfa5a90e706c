"""How much of one connection is read at a time, on a network in memory; and what the system holds of it."""

import asyncio
import socket

from millstream.net.peer import PACED_TURN_BYTES, FramedPeer, Limits
from tests.simulation.loop import run
from tests.simulation.network import SimNetwork

FRAME_BYTES = 8 * PACED_TURN_BYTES
REST_S = 0.001


class Reader(FramedPeer):
    """Notes how much came with each read, and when the frame was whole."""

    def __init__(self, rest_s: float, whole: "asyncio.Future[float]") -> None:
        super().__init__(asyncio.get_running_loop(), Limits(2 * FRAME_BYTES))
        self.pace(rest_s)
        self.reads: list[int] = []
        self._whole = whole

    def buffer_updated(self, count: int) -> None:
        self.reads.append(count)
        super().buffer_updated(count)

    def frame_received(self, frame: memoryview) -> None:
        assert bytes(frame) == bytes(FRAME_BYTES)
        self._whole.set_result(self.loop.time())


def read_one(rest_s: float) -> tuple[list[int], float]:
    """The reads that a large frame took, and how long it took altogether."""
    network = SimNetwork()

    async def play() -> tuple[list[int], float]:
        whole: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        readers: list[Reader] = []

        def accept() -> Reader:
            readers.append(Reader(rest_s, whole))
            return readers[-1]

        server = await network.listen(accept, "here", 1)
        await server.start_serving()
        transport, _ = await network.connect(asyncio.Protocol, "here", 1)
        started = asyncio.get_running_loop().time()
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(FRAME_BYTES.to_bytes(4) + bytes(FRAME_BYTES))
        took_s = await whole - started
        server.close()
        return readers[0].reads, took_s

    return run(play(), network)


def test_one_who_is_paced_reads_little_by_little_and_rests_in_between() -> None:
    reads, took_s = read_one(REST_S)
    assert max(reads) <= PACED_TURN_BYTES
    assert took_s >= FRAME_BYTES // (2 * PACED_TURN_BYTES) * REST_S  # A turn ends with the read that fills it.


def test_others_read_what_there_is() -> None:
    reads, took_s = read_one(0.0)
    assert max(reads) > PACED_TURN_BYTES
    assert took_s < REST_S


def buffers_of(limits: Limits) -> tuple[int, int]:
    """What the system holds for a socket that was accepted under these limits, both ways."""

    async def play() -> tuple[int, int]:
        loop = asyncio.get_running_loop()
        accepted: asyncio.Future[asyncio.Transport] = loop.create_future()

        class Silent(FramedPeer):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                super().connection_made(transport)
                accepted.set_result(self.transport)

        server = await loop.create_server(lambda: Silent(loop, limits), "127.0.0.1", 0)
        async with server:
            transport, _ = await loop.create_connection(asyncio.Protocol, *server.sockets[0].getsockname())
            sock = (await accepted).get_extra_info("socket")
            sizes = [sock.getsockopt(socket.SOL_SOCKET, option) for option in (socket.SO_SNDBUF, socket.SO_RCVBUF)]
            transport.close()
            (await accepted).close()
        return sizes[0], sizes[1]

    return asyncio.run(play())


def test_the_system_holds_as_much_for_a_socket_as_it_is_told() -> None:
    send_bytes, receive_bytes = 48 * 1024, 24 * 1024
    # Linux counts its own book-keeping as well, and so doubles what it is told.
    assert buffers_of(Limits(1, send_buffer_bytes=send_bytes, receive_buffer_bytes=receive_bytes)) == (
        2 * send_bytes,
        2 * receive_bytes,
    )
    assert buffers_of(Limits(1, send_buffer_bytes=send_bytes))[1] == buffers_of(Limits(1))[1] != 2 * receive_bytes
