"""A whole cluster in memory: brokers with a disk each, over one registry and one network."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import copy_context
from typing import Any

from millstream.broker.broker import Broker
from millstream.client.wire import Connection
from millstream.model.workers import Workers
from millstream.registry.embedded import EmbeddedRegistry, EmbeddedTree
from millstream.registry.tree import Registry, RegistryFailure, Watch
from tests.simulation.broker import SimBroker
from tests.simulation.failing_registry import WRITES
from tests.simulation.network import SimNetwork

#: How long the registry takes a silent broker for alive.
SESSION_TIMEOUT_S = 6.0
#: How often a condition is looked at again.
LOOK_S = 0.01


def host_of(broker_id: int) -> str:
    """The node and the host of a broker."""
    return f"broker-{broker_id}"


class ProcessRegistry:
    """A session as one process has it: it calls back as that process, and not at all once the process is dead."""

    def __init__(self, session: EmbeddedRegistry) -> None:
        self._session = session
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()
        self.is_dead = False
        #: Whether writes are refused, as by an ensemble without a majority that gave up waiting.
        self.is_failing = False

    def __getattr__(self, name: str) -> Any:
        if self.is_dead:
            raise RegistryFailure("/", "the process that asks is dead")
        if self.is_failing and name in WRITES:
            return self._fail
        return getattr(self._session, name)

    async def _fail(self, *args: object, **options: object) -> None:
        raise RegistryFailure("/", "the ensemble does not answer")

    async def watch(self, path: str, callback: Callable[[], None], *, children: bool = False) -> Watch:
        return await self._session.watch(path, self._as_process(callback), children=children)

    def on_session_expired(self, callback: Callable[[], None]) -> None:
        self._session.on_session_expired(self._as_process(callback))

    def expire(self) -> None:
        """The registry takes the process for dead: another session is open when it hears of it."""
        self._session.expire()

    async def close(self) -> None:
        if not self.is_dead:
            await self._session.close()

    def die(self, after_s: float) -> None:
        """The process is dead; the registry finds out by its silence."""
        self.is_dead = True
        self._loop.call_later(after_s, lambda: self._loop.create_task(self._session.close()))

    def _as_process(self, callback: Callable[[], None]) -> Callable[[], None]:
        def call() -> None:
            if not self.is_dead:
                callback()

        def call_soon() -> None:
            self._loop.call_soon(call, context=self._context)

        return call_soon


class Member(SimBroker):
    """One broker of a simulated cluster."""

    session: ProcessRegistry

    def __init__(self, broker_id: int, tree: EmbeddedTree, network: SimNetwork, **options: Any) -> None:
        super().__init__(network, host=host_of(broker_id), **options)
        self.id = broker_id
        self.settings["broker.id"] = str(broker_id)
        self._tree = tree

    async def _open_registry(self, path: str, workers: Workers) -> tuple[Registry, Callable[[], Awaitable[None]]]:
        assert self._tree is not None
        self.session = ProcessRegistry(self._tree.session())
        return self.session, self.session.close


class SimulatedCluster:
    """Brokers 1 to ``count``; each can be started, stopped, killed and cut off from the registry."""

    def __init__(
        self,
        network: SimNetwork,
        count: int = 3,
        seed: int = 0,
        settings: Mapping[str, str] | None = None,
        delay_ms_max: float = 0,
        session_timeout_s: float = SESSION_TIMEOUT_S,
    ) -> None:
        self.network = network
        self.session_timeout_s = session_timeout_s
        self._loop = asyncio.get_running_loop()
        self.tree = EmbeddedTree(call_soon=self._loop.call_soon)
        self.members = {
            broker_id: Member(
                broker_id,
                self.tree,
                network,
                seed=seed * 1000 + broker_id,
                settings=settings,
                delay_ms_max=delay_ms_max,
            )
            for broker_id in range(1, count + 1)
        }

    # What a test does to the brokers.

    async def start(self, *broker_ids: int) -> None:
        """Start these brokers, or all, at the same time; returns when all of them serve."""
        await self._each(broker_ids or self.members, lambda member: member.start())

    async def stop(self, *broker_ids: int) -> None:
        """Stop these, or all that run, one after the other as SIGTERM does."""
        for broker_id in broker_ids or [broker.id for broker in self.running]:
            await self.members[broker_id].stop()

    async def kill(self, broker_id: int, *, power: bool = False) -> None:
        """kill -9: sockets are reset at once, the registry finds out when the session ends.

        With ``power`` the machine goes too: unflushed data is lost.
        """
        member = self.members[broker_id]
        member.session.die(self.session_timeout_s)
        await member.crash(power=power)

    def expire(self, broker_id: int) -> None:
        """The registry ends a running broker's session."""
        self.members[broker_id].session.expire()

    # What a test asks.

    @property
    def running(self) -> list[Broker]:
        """The brokers that run, by their ids."""
        return [member.broker for member in self.members.values() if member.broker is not None]

    def broker(self, broker_id: int) -> Broker:
        """A broker that runs."""
        broker = self.members[broker_id].broker
        assert broker is not None, f"broker {broker_id} does not run"
        return broker

    @property
    def controller(self) -> Broker | None:
        """The broker that is controller, if one is."""
        active = [broker for broker in self.running if broker.controller.is_active]
        return max(active, key=lambda broker: broker.controller.epoch, default=None)

    async def connect(self, broker_id: int) -> Connection:
        """A client's connection to one of them."""
        return await self.members[broker_id].connect()

    async def until(self, condition: Callable[[], object], timeout_s: float = 30.0) -> None:
        """Let time pass until ``condition`` holds; AssertionError when it never does."""
        deadline_s = self._loop.time() + timeout_s
        while not condition():
            assert self._loop.time() < deadline_s, f"not within {timeout_s:g} s"
            await asyncio.sleep(LOOK_S)

    async def _each(self, broker_ids: Iterable[int], act: Callable[[Member], Awaitable[object]]) -> None:
        async with asyncio.TaskGroup() as group:
            for broker_id in broker_ids:
                group.create_task(_done(act(self.members[broker_id])))


async def _done(action: Awaitable[object]) -> None:
    await action
