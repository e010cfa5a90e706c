"""A whole broker in memory: its disk, network, threads and clock are simulated, the rest is what production runs."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TypeVar

from millstream.broker.broker import Broker
from millstream.broker.environment import Environment
from millstream.broker.table import ROUTES
from millstream.client.wire import Address, Connection, connect
from millstream.config.broker import BrokerConfig
from millstream.model.workers import Workers
from millstream.registry.embedded import EmbeddedTree
from millstream.registry.tree import Registry
from tests.simulation.files import MemoryFiles
from tests.simulation.loop import SimClock, SimWorkers
from tests.simulation.mount import Mount
from tests.simulation.network import SimNetwork, SimServer, SimTransport

T = TypeVar("T")
P = TypeVar("P", bound=asyncio.BaseProtocol)

HOST = "broker"
PORT = 9092


class BrokerWorkers(SimWorkers):
    """Workers for a broker whose disk is in memory, and would be another disk after pickling."""

    async def in_process(self, function: Callable[..., T], *args: object) -> T:
        """Run ``function`` on the very objects it was given."""
        return await self.in_thread(function, *args)


class BrokerNetwork:
    """The network as a broker is given it: a place is taken first and opened later; a dead one reaches nobody."""

    def __init__(self, network: SimNetwork, host: str = HOST) -> None:
        self._network = network
        self._host = host
        self.is_dead = False

    async def listen(self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int = 0) -> SimServer:
        """Take the place."""
        server = await self._network.listen(factory, host, port)
        server.is_open = False
        return server

    async def connect(self, factory: Callable[[], P], host: str, port: int) -> tuple[SimTransport, P]:
        """Connect as the node that asks."""
        if self.is_dead:
            raise ConnectionRefusedError(111, "the process that asks is dead")
        return await self._network.connect(factory, host, port)

    def host_name(self) -> str:
        return self._host


class SimBroker:
    """One broker that can be started, stopped, crashed and started again on the same disk."""

    def __init__(
        self,
        network: SimNetwork,
        seed: int = 0,
        settings: Mapping[str, str] | None = None,
        delay_ms_max: float = 0,
        host: str = HOST,
        skew_ms: int = 0,
    ) -> None:
        self.rng = random.Random(seed)
        self.network = network
        self.host = host
        self.loop = asyncio.get_running_loop()
        self.clock = SimClock(self.loop, skew_ms)
        self.files = MemoryFiles(self.rng, self.clock)
        self.files.make_folder("/data")
        self.files.sync_folder("/")
        self.settings = {"listeners": f"PLAINTEXT://{host}:{PORT}", "log.dirs": "/data/a", **(settings or {})}
        self._delay_ms_max = delay_ms_max
        self._tree: EmbeddedTree | None = None
        self._reach = BrokerNetwork(network, host)
        self.broker: Broker | None = None

    async def start(self) -> Broker:
        """Start on what the disk holds."""
        self._reach = BrokerNetwork(self.network, self.host)
        workers = BrokerWorkers(self.rng, self._delay_ms_max)
        environment = Environment(
            clock=self.clock,
            files=Mount(self.files),
            network=self._reach,
            workers=workers,
            writers=workers,
            patient_workers=workers,
            random=self.rng,
            open_registry=self._open_registry,
        )
        self.broker = Broker(BrokerConfig.load(overrides=self.settings), environment, ROUTES)
        with self.network.as_node(self.host):
            await self.broker.start()
        return self.broker

    async def stop(self) -> None:
        """Stop as SIGTERM does."""
        assert self.broker is not None
        broker, self.broker = self.broker, None
        with self.network.as_node(self.host):
            await broker.stop()

    async def crash(self, *, power: bool) -> None:
        """End without a word: kill -9, or with ``power`` the loss of everything that was not flushed."""
        assert self.broker is not None
        broker, self.broker = self.broker, None
        self._reach.is_dead = True
        self.network.kill(self.host)
        (self.files.crash if power else self.files.kill)()
        # What is left of the process must not outlive it: its tasks end, and its disk no longer takes anything.
        with self.network.as_node(self.host), suppress(Exception):
            await broker.stop(hands_over=False)

    async def connect(self) -> Connection:
        """A client's connection."""
        with self.network.as_node("client"):
            return await connect(Address(self.host, PORT))

    async def _open_registry(self, path: str, workers: Workers) -> tuple[Registry, Callable[[], Awaitable[None]]]:
        self._tree = self._tree or EmbeddedTree(call_soon=self.loop.call_soon)
        registry = self._tree.session()
        return registry, registry.close
