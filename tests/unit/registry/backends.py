"""The implementations of ``Registry`` that must all pass the same tests.

A new one is a class like ``Embedded`` and a line in ``BACKENDS``.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

import pytest
from kazoo.client import KazooClient

from millstream.config.zookeeper import Ensemble, parse_ensemble
from millstream.registry.embedded import EmbeddedRegistry, EmbeddedTree
from millstream.registry.store import MEMORY
from millstream.registry.tree import Registry
from millstream.registry.zookeeper.registry import ZooKeeperRegistry


class Threads:
    """Workers that use the loop's own threads."""

    async def in_thread(self, function: Callable[..., object], *args: object) -> object:
        return await asyncio.get_running_loop().run_in_executor(None, function, *args)

    async def in_process(self, function: Callable[..., object], *args: object) -> object:
        raise AssertionError("the registry computes nothing")


class Tree(Protocol):
    """An empty tree, and what tests do to it that no broker can."""

    async def session(self) -> Registry:
        """Another session on the same tree."""
        ...

    async def expire(self, session: Registry) -> None:
        """Let a session run out."""
        ...

    async def watches_called(self) -> None:
        """Wait until every watch that is due was called."""
        ...

    async def close(self) -> None: ...


class Embedded:
    """The tree in SQLite, in memory or in a file."""

    def __init__(self, path: str, workers: Threads | None) -> None:
        loop = asyncio.get_running_loop()
        self._tree = EmbeddedTree(path, call_soon=loop.call_soon, workers=workers)  # type: ignore[arg-type]

    async def session(self) -> EmbeddedRegistry:
        return self._tree.session()

    async def expire(self, session: Registry) -> None:
        assert isinstance(session, EmbeddedRegistry)
        session.expire()

    async def watches_called(self) -> None:
        await asyncio.sleep(0)

    async def close(self) -> None:
        await self._tree.close()


class ZooKeeper:
    """The tree below a node of its own in a real ZooKeeper."""

    def __init__(self, server: str) -> None:
        self.ensemble: Ensemble = parse_ensemble(f"{server}/tests/{os.urandom(6).hex()}")
        self._sessions: list[ZooKeeperRegistry] = []

    async def session(self) -> ZooKeeperRegistry:
        session = await ZooKeeperRegistry.open(self.ensemble, session_timeout_ms=6_000, connect_timeout_ms=20_000)
        self._sessions.append(session)
        return session

    async def expire(self, session: Registry) -> None:
        assert isinstance(session, ZooKeeperRegistry)
        await expire(session, self.ensemble)

    async def watches_called(self) -> None:
        for session in self._sessions:
            await settled(session)

    async def close(self) -> None:
        for session in self._sessions:
            await session.close()


async def expire(session: ZooKeeperRegistry, ensemble: Ensemble) -> None:
    """End a session behind its holder's back, and wait until it has the next one."""
    next_one = asyncio.Event()
    session.on_session_expired(next_one.set)
    other = KazooClient(hosts=ensemble.hosts, client_id=session._client.client_id)

    def end() -> None:
        other.start()
        other.stop()
        other.close()

    await asyncio.to_thread(end)
    await next_one.wait()


async def settled(session: ZooKeeperRegistry) -> None:
    """Wait until the watches that fired by now are set again, and called."""
    await session.exists("/")  # Whatever fired before this was answered has crossed into the loop by then.
    while session._tasks:
        await asyncio.wait(session._tasks)


BACKENDS: dict[str, Callable[[Path, str], Tree]] = {
    "memory": lambda folder, server: Embedded(MEMORY, None),
    "file": lambda folder, server: Embedded(str(folder / "registry.db"), None),
    "file and threads": lambda folder, server: Embedded(str(folder / "registry.db"), Threads()),
    "zookeeper": lambda folder, server: ZooKeeper(server),
}


def on_every_backend(
    scenario: Callable[[Tree], Awaitable[None]],
) -> Callable[[str, Path, pytest.FixtureRequest], None]:
    """Make a test of a scenario: it runs once on an empty tree of each backend."""

    async def run(name: str, folder: Path, server: str) -> None:
        tree = BACKENDS[name](folder, server)
        try:
            await scenario(tree)
        finally:
            await tree.close()

    @pytest.mark.parametrize("name", BACKENDS)
    def test(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
        server = request.getfixturevalue("zookeeper") if name == "zookeeper" else ""
        asyncio.run(run(name, tmp_path, server))

    test.__doc__ = scenario.__doc__
    return test
