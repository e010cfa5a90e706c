"""The registry as a cluster has it: far away, sometimes out of reach, and sure that whoever is silent for long is dead.

``Ensemble`` stands for the servers, ``Session`` is what one broker's process holds.  A call takes its way there and
back; the servers see the calls of a session, and the session sees its answers and its watches, in order.  While the
way is cut calls wait.  A session that was not heard of for its timeout is over, which its owner learns when it is heard
again: what it waits for raises SessionExpired, and another session begins, with the same watches.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextvars import copy_context
from typing import Generic, TypeVar

from millstream.registry.embedded import EmbeddedRegistry, EmbeddedTree
from millstream.registry.tree import (
    ANY_VERSION,
    Created,
    Node,
    Op,
    Outcome,
    RegistryFailure,
    SessionExpired,
    Stat,
    Watch,
)
from tests.simulation.cluster.processes import ClusterLoop, Process
from tests.simulation.network import SimNetwork

T = TypeVar("T")

#: The servers' node on the network.
REGISTRY = "registry"
#: How often each side looks whether it hears the other.
HEARTBEAT_S = 0.25


class Ensemble:
    """The servers: one tree, and who was heard of when."""

    def __init__(self, loop: ClusterLoop, network: SimNetwork, rng: random.Random, timeout_s: float) -> None:
        self.loop = loop
        self.network = network
        self.rng = rng
        self.timeout_s = timeout_s
        outside = copy_context()  # Word of a change is on its way whatever becomes of whoever made it.
        self.tree = EmbeddedTree(call_soon=lambda callback: loop.call_soon(callback, context=outside))
        #: While it is away nobody is served and nobody's session ends, as while ZooKeeper elects a leader.
        self.is_away = False
        self.expired_count = 0
        self._sessions: list[Session] = []

    def open(self, node: str, process: Process) -> "Session":
        """A session for a process that just began, which runs on that node."""
        session = Session(self, node, process)
        self._sessions.append(session)
        return session

    def expire(self, node: str) -> bool:
        """End the session of whoever runs on that node now, as if it had been silent; says whether there was one."""
        ended = [session for session in self._sessions if session.node == node and session.end()]
        return bool(ended)

    def latency_s(self) -> float:
        """One way."""
        return self.network.latency_s() + self.rng.uniform(0, 0.002)

    async def watch_over(self) -> None:
        """End the sessions that were silent for too long; never returns."""
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            now_s = self.loop.time()
            for session in list(self._sessions):
                if self.is_away or session.is_heard():
                    session.heard_s = now_s
                elif now_s - session.heard_s >= self.timeout_s and session.end():
                    self.expired_count += 1
                if session.is_forgotten():
                    self._sessions.remove(session)


class Session:
    """``Registry`` for one process."""

    def __init__(self, ensemble: Ensemble, node: str, process: Process) -> None:
        self.node = node
        self.heard_s = ensemble.loop.time()
        self._ensemble = ensemble
        self._process = process
        self._context = copy_context()
        self._server: EmbeddedRegistry | None = ensemble.tree.session()  #: None once the servers have ended it
        self._session_id = self._server.session_id  #: as the process knows it
        self._is_closed = False
        self._watches: list[_FarWatch] = []
        self._on_expired: list[Callable[[], None]] = []
        #: Answers and watches come in order: the last is due then.
        self._next_arrival_s = 0.0
        self._turn = asyncio.Lock()
        with process.inside():
            self._keeper = ensemble.loop.create_task(self._keep(), context=copy_context())

    # What the servers know of it.

    def is_heard(self) -> bool:
        """Whether its process runs, and the way is open in both directions."""
        network = self._ensemble.network
        is_cut = network.is_cut(self.node, REGISTRY) or network.is_cut(REGISTRY, self.node)
        return not (self._process.is_dead or self._process.is_paused or is_cut)

    def end(self) -> bool:
        """It is over for the servers: its ephemeral nodes go.  Says whether it was not already."""
        server, self._server = self._server, None
        if server is None:
            return False
        for watch in self._watches:
            watch.let_go()
        _finish(server.close())
        return True

    def is_forgotten(self) -> bool:
        """Whether nobody will ever ask for it again."""
        return self._server is None and (self._process.is_dead or self._is_closed)

    # ``Registry``.

    @property
    def session_id(self) -> int:
        if self._is_closed:
            raise SessionExpired("/", "the session was closed")
        return self._session_id

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False) -> Created:
        return await self._ask(lambda server: server.create(path, data, ephemeral=ephemeral, sequence=sequence))

    async def get(self, path: str) -> Node:
        return await self._ask(lambda server: server.get(path))

    async def get_many(self, paths: Iterable[str]) -> list[Node | None]:
        wanted = list(paths)
        return await self._ask(lambda server: server.get_many(wanted))

    async def exists(self, path: str) -> Stat | None:
        return await self._ask(lambda server: server.exists(path))

    async def children(self, path: str) -> list[str]:
        return await self._ask(lambda server: server.children(path))

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        return await self._ask(lambda server: server.set(path, data, version))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._ask(lambda server: server.delete(path, version))

    async def multi(self, ops: Sequence[Op]) -> list[Outcome]:
        return await self._ask(lambda server: server.multi(ops))

    async def watch(self, path: str, callback: Callable[[], None], *, children: bool = False) -> Watch:
        watch = _FarWatch(self, path, callback, children)
        self._watches.append(watch)
        await self._ask(watch.set_at)
        return watch

    def on_session_expired(self, callback: Callable[[], None]) -> None:
        self._on_expired.append(callback)

    async def close(self) -> None:
        if self._is_closed:
            return
        if self._process.is_dead:
            raise RegistryFailure("/", "the process that asks is dead")
        self._is_closed = True
        self._keeper.cancel()
        for watch in self._watches:
            watch.cancel()
        await asyncio.sleep(self._ensemble.latency_s())
        if self.is_heard():  # Else the servers find out by its silence.
            self.end()

    # The way there and back.

    async def _ask(self, act: Callable[[EmbeddedRegistry], Awaitable[T]]) -> T:
        """One call at a time reaches the servers; its answer may overtake none before it."""
        asked_id = self.session_id
        async with self._turn:
            await asyncio.sleep(self._ensemble.latency_s())
            await self._until_heard()
            if self._server is None or self._session_id != asked_id:
                raise SessionExpired("/", "the session ended before the call was served")
            outcome = _Outcome[T]()
            try:
                outcome.value = _finish(act(self._server))
            except Exception as refusal:
                outcome.error = refusal
            arrival_s = self._arrival_s()
        await asyncio.sleep(max(0.0, arrival_s - self._ensemble.loop.time()))
        await self._until_heard()
        if self._session_id != asked_id or self._server is None:
            raise SessionExpired("/", "the session ended while the answer was under way")
        if outcome.error is not None:
            raise outcome.error
        return outcome.value

    async def _until_heard(self) -> None:
        """Look often enough, and no oftener: what is waited for changes in many ways, and none of them tells."""
        while self._ensemble.is_away or not self.is_heard():
            await _a_moment()

    def _arrival_s(self) -> float:
        """When what leaves the servers now is here."""
        loop = self._ensemble.loop
        self._next_arrival_s = max(self._next_arrival_s, loop.time() + self._ensemble.latency_s())
        return self._next_arrival_s

    async def _keep(self) -> None:
        """Begin anew once it is heard again after it ended."""
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            if self._server is None and not self._ensemble.is_away and self.is_heard():
                self.heard_s = self._ensemble.loop.time()
                self._server = self._ensemble.tree.session()
                self._session_id = self._server.session_id
                for watch in self._watches:
                    _finish(watch.set_at(self._server))
                    watch.call()  # It may have missed something.
                for callback in self._on_expired:
                    callback()

    def tell(self, callback: Callable[[], None]) -> None:
        """Call back in the process, once word of it has come there; never if the way stays cut until the end."""
        self._ensemble.loop.call_at(self._arrival_s(), self._told, callback, self._session_id, context=self._context)

    def _told(self, callback: Callable[[], None], session_id: int) -> None:
        if self._session_id != session_id or self._is_closed:
            return  # Another session has begun, and called everybody.
        if not self.is_heard() or self._ensemble.is_away:
            later_s = self._ensemble.loop.time() + HEARTBEAT_S / 5
            self._ensemble.loop.call_at(later_s, self._told, callback, session_id, context=self._context)
            return
        callback()


class _Outcome(Generic[T]):
    """What the servers said, on its way."""

    value: T
    error: Exception | None = None


class _FarWatch:
    """A watch that stays through the sessions of its process."""

    def __init__(self, session: Session, path: str, callback: Callable[[], None], children: bool) -> None:
        self._session = session
        self._path = path
        self._callback = callback
        self._children = children
        self._near: Watch | None = None
        self._is_cancelled = False

    async def set_at(self, server: EmbeddedRegistry) -> None:
        """The servers watch from now on."""
        if not self._is_cancelled:
            self._near = await server.watch(self._path, lambda: self._session.tell(self.call), children=self._children)

    def let_go(self) -> None:
        """The servers watch no more."""
        if self._near is not None:
            self._near.cancel()

    def call(self) -> None:
        """Call back, unless nobody wants to hear."""
        if not self._is_cancelled:
            self._callback()

    def cancel(self) -> None:
        if not self._is_cancelled:
            self._is_cancelled = True
            self.let_go()
            self._session._watches.remove(self)


async def _a_moment() -> None:
    await asyncio.sleep(HEARTBEAT_S / 5)


def _finish(call: Awaitable[T]) -> T:
    """The outcome of a call to a tree in memory, which never waits."""
    steps = call.__await__()
    try:
        next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("a tree in memory does not wait")
