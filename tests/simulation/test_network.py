"""The simulated network must carry bytes as TCP does, and lose them only as TCP does."""

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.simulation.loop import run
from tests.simulation.network import SimNetwork, SimTransport, Weather

ROUGH = Weather(latency_ms_least=0.1, latency_ms_most=20, fragment_chance=0.9)


class Recorder(asyncio.Protocol):
    """Keeps what it hears; ``reply`` makes it an echo."""

    def __init__(self, reply: bool = False, keep_half_open: bool = False) -> None:
        self.heard = bytearray()
        self.pieces = 0
        self.events: list[str] = []
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self._reply = reply
        self._keep_half_open = keep_half_open

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, SimTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.heard += data
        self.pieces += 1
        if self._reply:
            self.transport.write(data)

    def eof_received(self) -> bool:
        self.events.append("eof")
        return self._keep_half_open

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)


class SmallBuffer(asyncio.BufferedProtocol):
    """Reads by buffer, a few bytes at a time."""

    def __init__(self) -> None:
        self.heard = bytearray()
        self._buffer = bytearray(7)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.heard += self._buffer[:nbytes]


def play(scenario: Coroutine[Any, Any, None], network: SimNetwork) -> None:
    run(scenario, network)


async def pair(network: SimNetwork, client: str = "a", server: str = "b") -> tuple[Recorder, Recorder]:
    """A connected client and server; the client is first."""
    accepted: list[Recorder] = []

    def accept() -> Recorder:
        accepted.append(Recorder())
        return accepted[-1]

    with network.as_node(server):
        listening = await network.listen(accept, server)
    with network.as_node(client):
        _, ours = await network.connect(Recorder, server, listening.address[1])
    return ours, accepted[0]


@pytest.mark.parametrize("seed", range(10))
def test_bytes_arrive_whole_and_in_order_however_they_are_cut(seed: int) -> None:
    network = SimNetwork(random.Random(seed), ROUGH)

    async def scenario() -> None:
        ours, theirs = await pair(network)
        sent = bytearray()
        rng = random.Random(seed)
        for _ in range(40):
            chunk = rng.randbytes(rng.randint(1, 3000))
            sent += chunk
            ours.transport.write(chunk)
            await asyncio.sleep(rng.uniform(0, 0.01))
        ours.transport.close()
        assert await theirs.lost is None
        assert theirs.heard == sent
        assert theirs.pieces > 40
        assert theirs.events == ["eof"]

    play(scenario(), network)


def test_latency_is_virtual_and_real_to_those_inside() -> None:
    network = SimNetwork(weather=Weather(latency_ms_least=100, latency_ms_most=100))

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = await pair(network)
        started = loop.time()
        ours.transport.writelines([b"pi", b"ng"])
        await asyncio.sleep(0.0999)
        assert theirs.heard == b""
        await asyncio.sleep(0.0002)
        assert theirs.heard == b"ping"
        assert loop.time() - started < 0.2

    play(scenario(), network)


def test_a_buffered_protocol_is_driven_through_its_own_buffer() -> None:
    network = SimNetwork()

    async def scenario() -> None:
        made: list[SmallBuffer] = []

        def accept() -> SmallBuffer:
            made.append(SmallBuffer())
            return made[-1]

        server = await network.listen(accept, "b", 9092)
        transport, _ = await network.connect(Recorder, "b", 9092)
        transport.write(b"a sentence longer than seven bytes")
        await asyncio.sleep(1)
        assert made[0].heard == b"a sentence longer than seven bytes"
        server.close()
        assert not server.is_serving()
        with pytest.raises(ConnectionRefusedError):
            await network.connect(Recorder, "b", 9092)

    play(scenario(), network)


def test_a_taken_port_is_refused_and_port_0_finds_a_free_one() -> None:
    network = SimNetwork()

    async def scenario() -> None:
        first = await network.listen(Recorder, "b")
        address = first.sockets[0].getsockname()
        with pytest.raises(OSError, match="in use"):
            await network.listen(Recorder, *address)
        assert (await network.listen(Recorder, "b")).address != address

    play(scenario(), network)


def test_a_reader_that_pauses_slows_the_writer_and_loses_nothing() -> None:
    network = SimNetwork()

    async def scenario() -> None:
        ours, theirs = await pair(network)
        theirs.transport.pause_reading()
        ours.transport.write(bytes(100_000))
        await asyncio.sleep(10)
        assert (bytes(theirs.heard), ours.events) == (b"", ["pause"])
        assert ours.transport.get_write_buffer_size() == 100_000
        theirs.transport.resume_reading()
        await asyncio.sleep(1)
        assert (len(theirs.heard), ours.events) == (100_000, ["pause", "resume"])

    play(scenario(), network)


def test_an_abort_resets_the_other_end_and_drops_what_was_under_way() -> None:
    network = SimNetwork()

    async def scenario() -> None:
        ours, theirs = await pair(network)
        ours.transport.write(b"never")
        ours.transport.abort()
        assert await ours.lost is None
        assert isinstance(await theirs.lost, ConnectionResetError)
        assert theirs.heard == b""
        assert network.connection_count == 0

    play(scenario(), network)


def test_a_half_closed_connection_still_carries_the_other_way() -> None:
    network = SimNetwork()

    async def scenario() -> None:
        made: list[Recorder] = []

        def accept() -> Recorder:
            made.append(Recorder(keep_half_open=True))
            return made[-1]

        await network.listen(accept, "b", 1)
        transport, ours = await network.connect(Recorder, "b", 1)
        transport.write(b"question")
        transport.write_eof()
        await asyncio.sleep(1)
        assert made[0].heard == b"question"
        made[0].transport.write(b"answer")
        made[0].transport.close()
        assert await ours.lost is None
        assert ours.heard == b"answer"

    play(scenario(), network)


def test_a_partition_holds_bytes_back_until_it_heals() -> None:
    network = SimNetwork()

    async def scenario() -> None:
        ours, theirs = await pair(network)
        network.partition(["a"], ["b"])
        ours.transport.write(b"late")
        theirs.transport.write(b"too")
        await asyncio.sleep(3600)
        assert (bytes(theirs.heard), bytes(ours.heard)) == (b"", b"")
        network.heal()
        await asyncio.sleep(1)
        assert (bytes(theirs.heard), bytes(ours.heard)) == (b"late", b"too")

    play(scenario(), network)


def test_a_cut_one_way_lets_the_other_way_through() -> None:
    network = SimNetwork()

    async def scenario() -> None:
        ours, theirs = await pair(network)
        network.cut("a", "b")
        ours.transport.write(b"unheard")
        theirs.transport.write(b"heard")
        await asyncio.sleep(1)
        assert (bytes(theirs.heard), bytes(ours.heard)) == (b"", b"heard")

    play(scenario(), network)


def test_connecting_through_a_partition_waits_until_it_heals() -> None:
    network = SimNetwork()

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        with network.as_node("b"):
            await network.listen(Recorder, "b", 1)
        network.partition(["client"], ["b"])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await network.connect(Recorder, "b", 1)
        loop.call_later(5, network.heal)
        await network.connect(Recorder, "b", 1)
        assert loop.time() == pytest.approx(35, abs=0.1)

    play(scenario(), network)


def test_a_killed_node_hears_nothing_and_its_peers_hear_a_reset() -> None:
    network = SimNetwork()

    async def scenario() -> None:
        ours, theirs = await pair(network)
        network.kill("b")
        assert isinstance(await ours.lost, ConnectionResetError)
        await asyncio.sleep(1)
        assert not theirs.lost.done()
        with pytest.raises(ConnectionRefusedError):
            await network.connect(Recorder, "b", ours.transport.get_extra_info("peername")[1])

    play(scenario(), network)


def test_resets_strike_the_connections_between_two_nodes_only() -> None:
    network = SimNetwork()

    async def scenario() -> None:
        one, _ = await pair(network, "a", "b")
        other, _ = await pair(network, "a", "c")
        assert network.reset("a", "b") == 1
        assert isinstance(await one.lost, ConnectionResetError)
        await asyncio.sleep(1)
        assert not other.lost.done()

    play(scenario(), network)


def test_writing_to_one_who_is_gone_is_answered_by_a_reset() -> None:
    """A partition hid that the other end went; the first bytes after it find out."""
    network = SimNetwork()

    async def scenario() -> None:
        ours, theirs = await pair(network)
        network.cut("b", "a")
        theirs.transport.abort()
        await asyncio.sleep(1)
        network.heal()
        await asyncio.sleep(1)
        assert not ours.lost.done()
        ours.transport.write(b"hello?")
        assert isinstance(await ours.lost, ConnectionResetError)
        ours.transport.write(b"ignored")

    play(scenario(), network)


def test_callbacks_run_as_the_node_they_belong_to() -> None:
    """A task begun when bytes arrive is the receiver's, so that its own connections are the receiver's too."""
    network = SimNetwork()

    async def scenario() -> None:
        class Relay(Recorder):
            def data_received(self, data: bytes) -> None:
                self.task = asyncio.ensure_future(network.connect(Recorder, "c", 3))

        with network.as_node("c"):
            await network.listen(Recorder, "c", 3)
        with network.as_node("b"):
            await network.listen(Relay, "b", 2)
        transport, _ = await network.connect(Recorder, "b", 2)
        network.partition(["b"], ["c"])
        transport.write(b"go")
        await asyncio.sleep(60)
        assert network.connection_count == 1, "the relay stands at b, which is cut off from c"
        network.heal()
        await asyncio.sleep(1)
        assert network.connection_count == 2

    play(scenario(), network)


def test_asyncio_streams_run_over_it_unchanged() -> None:
    network = SimNetwork(random.Random(3), ROUGH)

    async def scenario() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write((await reader.readline()).upper())
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "b", 0)
        reader, writer = await asyncio.open_connection("b", server.sockets[0].getsockname()[1])
        writer.write(b"shout this\n")
        assert await reader.read() == b"SHOUT THIS\n"
        writer.close()

    play(scenario(), network)


def test_a_seed_replays_exactly() -> None:
    async def scenario(network: SimNetwork, trace: list[tuple[float, int]]) -> None:
        loop = asyncio.get_running_loop()
        ours, theirs = await pair(network)
        for size in range(1, 60):
            ours.transport.write(bytes(size))
            await asyncio.sleep(0.002)
            trace.append((loop.time(), theirs.pieces))
            if ours.lost.done():
                return

    def trace(seed: int) -> list[tuple[float, int]]:
        found: list[tuple[float, int]] = []
        weather = Weather(latency_ms_least=0, latency_ms_most=9, fragment_chance=0.5, reset_chance=0.02)
        network = SimNetwork(random.Random(seed), weather)
        run(scenario(network, found), network)
        return found

    traces = [trace(seed) for seed in range(12)]
    assert traces == [trace(seed) for seed in range(12)]
    assert len({tuple(found) for found in traces}) == 12
    assert any(len(found) < 59 for found in traces), "no connection was ever reset"
