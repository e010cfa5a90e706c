"""The implementations of ``Registry`` that must all pass the same tests.

A new one is a class like ``Embedded`` and a line in ``BACKENDS``.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

import pytest

from millstream.registry.embedded import EmbeddedRegistry, EmbeddedTree
from millstream.registry.store import MEMORY
from millstream.registry.tree import Registry


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


BACKENDS: dict[str, Callable[[Path], Tree]] = {
    "memory": lambda folder: Embedded(MEMORY, None),
    "file": lambda folder: Embedded(str(folder / "registry.db"), None),
    "file and threads": lambda folder: Embedded(str(folder / "registry.db"), Threads()),
}


def on_every_backend(scenario: Callable[[Tree], Awaitable[None]]) -> Callable[[str, Path], None]:
    """Make a test of a scenario: it runs once on an empty tree of each backend."""

    async def run(name: str, folder: Path) -> None:
        tree = BACKENDS[name](folder)
        try:
            await scenario(tree)
        finally:
            await tree.close()

    @pytest.mark.parametrize("name", BACKENDS)
    def test(name: str, tmp_path: Path) -> None:
        asyncio.run(run(name, tmp_path))

    test.__doc__ = scenario.__doc__
    return test
