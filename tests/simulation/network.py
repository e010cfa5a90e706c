"""A network in memory: streams between nodes, with latency, fragments, resets and partitions from a seed.

``listen`` and ``connect`` are asyncio's ``create_server`` and ``create_connection`` and drive the same protocols.
A node is whoever runs inside ``network.as_node(name)``; tasks and callbacks begun there stay that node.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from typing import Any, TypeVar

P = TypeVar("P", bound=asyncio.BaseProtocol)
T = TypeVar("T")

_NODE: ContextVar[str] = ContextVar("node", default="client")
_FIRST_FREE_PORT = 20_000
#: As much as asyncio reads at once.
_READ_BYTES_MAX = 256 * 1024


@dataclass(slots=True)
class Weather:
    """How the network behaves; may be changed while it runs."""

    latency_ms_least: float = 0.05
    latency_ms_most: float = 0.5
    #: How likely a delivery is cut into pieces of random size.
    fragment_chance: float = 0.0
    #: How likely a write is followed by a reset of its connection.
    reset_chance: float = 0.0


class SimNetwork:
    """Every link of a simulated cluster."""

    def __init__(self, rng: random.Random | None = None, weather: Weather | None = None) -> None:
        self.weather = weather or Weather()
        self.rng = rng or random.Random(0)
        self._servers: dict[tuple[str, int], SimServer] = {}
        self._links: list[Link] = []
        self._cuts: set[tuple[str, str]] = set()
        self._knocking: list[asyncio.Future[None]] = []
        self._next_port = _FIRST_FREE_PORT

    @contextmanager
    def as_node(self, name: str) -> Iterator[None]:
        """Whatever is begun inside the block belongs to this node."""
        token = _NODE.set(name)
        try:
            yield
        finally:
            _NODE.reset(token)

    async def listen(self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int = 0) -> "SimServer":
        """Accept connections at a place; port 0 takes a free one.  EADDRINUSE where it is taken."""
        if port == 0:
            port = self._next_port = self._next_port + 1
        if (host, port) in self._servers:
            raise OSError(98, f"address already in use: {host}:{port}")
        server = SimServer(self, factory, _NODE.get(), (host, port))
        self._servers[host, port] = server
        return server

    async def connect(self, factory: Callable[[], P], host: str, port: int) -> tuple["SimTransport", P]:
        """Connect to a listening place; waits while cut off from it, refused where nobody listens."""
        origin = _NODE.get()
        await asyncio.sleep(self.latency_s())
        server = self._servers.get((host, port))
        while server is not None and (self.is_cut(origin, server.node) or self.is_cut(server.node, origin)):
            knock: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._knocking.append(knock)
            await knock
            server = self._servers.get((host, port))
        if server is None or not server.is_open:
            raise ConnectionRefusedError(111, f"nobody listens at {host}:{port}")
        self._next_port += 1
        link = Link(self, (origin, server.node), (("10.0.0.1", self._next_port), (host, port)))
        self._links.append(link)
        link.ends[1].accept_soon(server)
        await asyncio.sleep(self.latency_s())
        ours = link.ends[0].begin(factory)
        return link.ends[0], ours

    # What a test does to the network.

    def partition(self, *sides: Iterable[str]) -> None:
        """Nodes of different sides no longer hear each other.  Bytes under way wait, as TCP's would."""
        groups = [set(side) for side in sides]
        for group in groups:
            for other in groups:
                if group is not other:
                    self._cuts |= {(a, b) for a in group for b in other}

    def cut(self, origin: str, target: str) -> None:
        """One way only: ``target`` no longer hears ``origin``."""
        self._cuts.add((origin, target))

    def mend(self, ways: Iterable[tuple[str, str]]) -> None:
        """These cuts end, each ``(origin, target)``; what waited is delivered."""
        self._cuts.difference_update(ways)
        self._let_through()

    def heal(self) -> None:
        """Everyone hears everyone again; what waited is delivered."""
        self._cuts.clear()
        self._let_through()

    def _let_through(self) -> None:
        knocking, self._knocking = self._knocking, []
        for knock in knocking:
            if not knock.done():
                knock.set_result(None)
        for link in list(self._links):
            for end in link.ends:
                end.deliver_soon()

    def reset(self, *nodes: str) -> int:
        """Reset every connection between these nodes (of this node, when it is one); says how many."""
        struck = [link for link in self._links if set(nodes) <= set(link.nodes)]
        for link in struck:
            link.reset()
        return len(struck)

    def kill(self, node: str) -> None:
        """A node's process dies: its protocols hear no more, its peers hear a reset, and nobody listens there."""
        for server in [server for server in self._servers.values() if server.node == node]:
            server.close()
        for link in [link for link in self._links if node in link.nodes]:
            for end, name in zip(link.ends, link.nodes, strict=True):
                if name == node:
                    end.die()

    @property
    def connection_count(self) -> int:
        """How many connections are open."""
        return len(self._links)

    # What links ask.

    def is_cut(self, origin: str, target: str) -> bool:
        """Whether ``target`` does not hear ``origin``."""
        return (origin, target) in self._cuts

    def latency_s(self, rng: random.Random | None = None) -> float:
        """The next delay."""
        return (rng or self.rng).uniform(self.weather.latency_ms_least, self.weather.latency_ms_most) / 1000

    def forget(self, link: "Link") -> None:
        """A link is gone."""
        if link in self._links:
            self._links.remove(link)

    def close_server(self, server: "SimServer") -> None:
        """Nobody listens there any more."""
        if self._servers.get(server.address) is server:
            del self._servers[server.address]


class SimServer:
    """A listening place."""

    def __init__(
        self, network: SimNetwork, factory: Callable[[], asyncio.BaseProtocol], node: str, address: tuple[str, int]
    ) -> None:
        self._network = network
        self.factory = factory
        self.node = node
        self.address = address
        self.context = copy_context()
        #: Whether connections are accepted; until then the place is only taken.
        self.is_open = True

    async def start_serving(self) -> None:
        """Accept connections from now on."""
        self.is_open = True

    @property
    def sockets(self) -> "tuple[SimServer]":
        """Where asyncio's servers are asked for the port they got."""
        return (self,)

    def getsockname(self) -> tuple[str, int]:
        return self.address

    def close(self) -> None:
        """Accept no more; connections go on."""
        self._network.close_server(self)

    async def wait_closed(self) -> None:
        """Closing takes no time."""

    def is_serving(self) -> bool:
        return self._network._servers.get(self.address) is self


class Link:
    """A connection: two ends that deliver to each other."""

    def __init__(
        self, network: SimNetwork, nodes: tuple[str, str], addresses: tuple[tuple[str, int], tuple[str, int]]
    ) -> None:
        self.nodes = nodes
        self.network = network
        self.ends = (
            SimTransport(self, 0, addresses[0], addresses[1]),
            SimTransport(self, 1, addresses[1], addresses[0]),
        )
        self.ends[0].peer, self.ends[1].peer = self.ends[1], self.ends[0]

    def reset(self) -> None:
        """Both ends lose the connection now, and what was under way is gone."""
        for end in self.ends:
            end.lose_soon(ConnectionResetError(104, "connection reset by the network"))

    def ended(self) -> None:
        """One end is gone; when both are, so is the link."""
        if all(end.is_lost for end in self.ends):
            self.network.forget(self)


class SimTransport(asyncio.Transport):
    """One end of a connection, as asyncio's transports behave."""

    peer: "SimTransport"

    def __init__(self, link: Link, side: int, own: tuple[str, int], other: tuple[str, int]) -> None:
        super().__init__({"sockname": own, "peername": other})
        self._link = link
        self._side = side
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        #: Its own, so that the order in which a node does things at once to many connections changes nothing.
        self._rng = random.Random(link.network.rng.getrandbits(32))
        self._protocol: Any = None
        self._lost_early: Exception | None = None
        self._under_way: list[
            tuple[float, bytearray | None]
        ] = []  # What we wrote, and when it arrives; None is the end.
        self._under_way_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._last_arrival_s = 0.0
        self._high, self._low = 64 * 1024, 16 * 1024
        self._writing_paused = False
        self._reading_paused = False
        self._closing = False
        self._ended = False
        self.is_lost = False

    def begin(self, factory: Callable[[], P]) -> P:
        """The connection stands; a new protocol has it, and is called as whoever begins it from now on."""
        self._context = copy_context()
        protocol = self._call(factory)
        self._protocol = protocol
        self._call(protocol.connection_made, self)
        if self._lost_early:
            self.lose(self._lost_early)
        self.peer.pump()
        return protocol

    def accept_soon(self, server: SimServer) -> None:
        """Let the server's node take the connection, when it runs."""
        self._context = server.context
        self._loop.call_soon(self._accept, server.factory, context=server.context)

    # asyncio's side.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or not len(data):
            return
        assert not self._ended, "write after write_eof"
        self._depart(bytearray(data))
        weather = self._link.network.weather
        if weather.reset_chance and self._rng.random() < weather.reset_chance:
            self._loop.call_soon(self._link.reset)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        if not self._ended:
            self._ended = True
            self._depart(None)

    def can_write_eof(self) -> bool:
        return True

    def close(self) -> None:
        """Our end is gone at once; what was written still arrives, then the other end hears the end."""
        if not self._closing:
            self.write_eof()
            self._closing = True
            self._loop.call_soon(self.lose, None)

    def abort(self) -> None:
        """Our end is gone at once, with what was written; the other hears a reset, unless it is cut off."""
        if not self.is_lost:
            self._closing = True
            self._drop()
            self._loop.call_soon(self.lose, None)
            self._send_reset()

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        if not self._closing:
            self._reading_paused = False
            self._loop.call_soon(self.peer.pump)

    def is_reading(self) -> bool:
        return not self._reading_paused and not self._closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 64 * 1024 if high is None else high
        self._low = self._high // 4 if low is None else low
        self._pace_writing()

    def get_write_buffer_size(self) -> int:
        return self._under_way_bytes

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    # The network's side.

    def lose(self, error: Exception | None) -> None:
        """The connection is gone for this end; only an error takes back what was written."""
        if self.is_lost:
            return
        if error:
            self._drop()
        if self._protocol is None:
            self._lost_early = error
            return
        self.is_lost = self._closing = True
        self._call(self._protocol.connection_lost, error)
        self._link.ended()

    def lose_soon(self, error: Exception, after_s: float = 0) -> None:
        """The same as this end's own node, which hears of it when it runs; what was under way is gone at once."""
        self._drop()
        self._loop.call_later(after_s, self.lose, error, context=self._context)

    def deliver_soon(self) -> None:
        """Let the other end's node take what has arrived for it."""
        self._loop.call_soon(self.pump, context=self.peer._context)

    def die(self) -> None:
        """This end's process is gone: it is told nothing, the other hears a reset."""
        self.is_lost = self._closing = True
        self._drop()
        self._send_reset()
        self._link.ended()

    def pump(self) -> None:
        """Deliver what has arrived at the other end and can be taken there."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
        peer = self.peer
        while self._under_way and not self._is_held():
            arrival_s, data = self._under_way[0]
            if arrival_s > self._loop.time():
                self._timer = self._loop.call_at(arrival_s, self.pump, context=peer._context)
                break
            if data is None:
                self._under_way.pop(0)
                peer._hear_end()
                break
            taken = peer._hear(memoryview(data)[: self._piece_bytes(len(data))].toreadonly())
            self._took(data, taken)
        self._pace_writing()

    def _accept(self, factory: Callable[[], asyncio.BaseProtocol]) -> None:
        if not self.is_lost:
            self.begin(factory)

    def _depart(self, data: bytearray | None) -> None:
        """Put bytes (or the end) on their way; nothing overtakes on a stream."""
        arrival_s = max(self._last_arrival_s, self._loop.time() + self._link.network.latency_s(self._rng))
        self._last_arrival_s = arrival_s
        self._under_way.append((arrival_s, data))
        self._under_way_bytes += len(data) if data else 0
        self._pace_writing()
        if len(self._under_way) == 1 and not self._timer:
            self._timer = self._loop.call_at(arrival_s, self.pump, context=self.peer._context)

    def _took(self, data: bytearray, count: int) -> None:
        """The other end has taken the first ``count`` bytes of ``data``."""
        if not self._under_way or self._under_way[0][1] is not data:
            return  # Dropped meanwhile, with everything under way.
        del data[:count]
        self._under_way_bytes -= count
        if not data:
            self._under_way.pop(0)

    def _piece_bytes(self, size: int) -> int:
        chance = self._link.network.weather.fragment_chance
        size = min(size, _READ_BYTES_MAX)
        if size > 1 and chance and self._rng.random() < chance:
            return self._rng.randint(1, size)
        return size

    def _drop(self) -> None:
        self._under_way.clear()
        self._under_way_bytes = 0
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _send_reset(self) -> None:
        if not self._link.network.is_cut(*self._way()):
            error = ConnectionResetError(104, "connection reset by peer")
            delay_s = self._link.network.latency_s(self._rng)
            self._loop.call_later(delay_s, self.peer.lose, error, context=self.peer._context)

    def _call(self, function: Callable[..., T], *args: object) -> T:
        """Call the protocol as the node it belongs to, whoever caused the call."""
        return self._context.copy().run(function, *args)

    def _is_held(self) -> bool:
        """Whether nothing may arrive for now: cut off, not yet accepted, or not read."""
        peer = self.peer
        if self._link.network.is_cut(*self._way()):
            return True
        return peer._protocol is None or (peer._reading_paused and not peer._closing)

    def _way(self) -> tuple[str, str]:
        nodes = self._link.nodes
        return nodes[self._side], nodes[1 - self._side]

    def _hear(self, piece: memoryview) -> int:
        """Take bytes that arrived; says how many."""
        if self._closing:
            self._send_reset()  # Written to one who no longer listens.
            return len(piece)
        if not isinstance(self._protocol, asyncio.BufferedProtocol):
            self._call(self._protocol.data_received, bytes(piece))
            return len(piece)
        buffer = memoryview(self._call(self._protocol.get_buffer, len(piece)))
        count = min(len(buffer), len(piece))
        assert count > 0, "get_buffer gave an empty buffer"
        buffer[:count] = piece[:count]
        self._call(self._protocol.buffer_updated, count)
        return count

    def _hear_end(self) -> None:
        if not self._closing and not self._call(self._protocol.eof_received):
            self.close()

    def _pace_writing(self) -> None:
        if self.is_lost or self._protocol is None:
            return
        if not self._writing_paused and self._under_way_bytes > self._high:
            self._writing_paused = True
            self._call(self._protocol.pause_writing)
        elif self._writing_paused and self._under_way_bytes <= self._low:
            self._writing_paused = False
            self._loop.call_soon(self._resume_writing, context=self._context)

    def _resume_writing(self) -> None:
        if not self.is_lost and not self._writing_paused:
            self._protocol.resume_writing()
