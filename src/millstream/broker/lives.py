"""The lives of a broker, each from a start to a stop: counted in the registry, and noted in its log directories.

Directories that were brought back from a copy of earlier days know an earlier life than the registry, and so do those
that failed and could not be told of it: nobody counts on what they hold.
"""

import asyncio
from contextlib import suppress

from millstream.registry.nodes import LIFE
from millstream.registry.tree import NodeExists, NoNode, Registry, SessionExpired

#: How long to wait before another attempt to write, when the session was over.
BACKOFF_S = 0.1
#: A life is noted in the directories before it is counted, so they may be one ahead, and no more.
OUT_OF_REACH = 2


class Lives:
    """What the registry knows of one broker's lives; written by that broker alone."""

    def __init__(self, registry: Registry, broker_id: int) -> None:
        self._registry = registry
        self._path = LIFE.path(broker_id)
        self._counted = 0

    async def last(self) -> int | None:
        """The last life that began; None where none did yet."""
        (node,) = await self._registry.get_many([self._path])
        return None if node is None else LIFE.decode(node.data)

    async def begin(self, life: int) -> None:
        """This life has the broker's id to itself, and its number is noted in every directory."""
        await self._count(life)

    async def disown(self, life: int) -> None:
        """What this life wrote may be lost, whatever its directories say."""
        await self._count(life + OUT_OF_REACH)

    async def _count(self, life: int) -> None:
        self._counted = max(self._counted, life)  # What was disowned stays so, whichever is written last.
        while True:
            try:
                await self._write(LIFE.encode(self._counted))
                return
            except SessionExpired:  # Another is open by now.
                await asyncio.sleep(BACKOFF_S)

    async def _write(self, data: bytes) -> None:
        try:
            await self._registry.set(self._path, data)
        except NoNode:
            with suppress(NodeExists):  # An earlier attempt, which went unanswered.
                await self._registry.create(self._path, data)
