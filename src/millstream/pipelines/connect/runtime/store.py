"""Where connectors are kept: a topic of configs, one of offsets, one of statuses."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress

from millstream.client.cluster import Cluster
from millstream.model.clock import Clock
from millstream.model.errors import ProtocolError
from millstream.pipelines.connect.runtime.configs import Configs
from millstream.pipelines.connect.runtime.entries import Entry
from millstream.pipelines.connect.runtime.offsets import Offsets
from millstream.pipelines.connect.runtime.statuses import Statuses
from millstream.pipelines.connect.runtime.topic import KeptTopic

logger = logging.getLogger(__name__)

#: How long the last statuses may take to be written when all ends, and how long one waits after a failure.
LAST_WRITES_S = 5.0
RETRY_S = 1.0


class Store:
    """The topics ``GROUP-configs``, ``GROUP-offsets`` and ``GROUP-status``, and what they say."""

    def __init__(self, cluster: Cluster, group: str, clock: Clock) -> None:
        self.configs = Configs()
        self.statuses = Statuses()
        self.offsets_topic = f"{group}-offsets"
        self._cluster = cluster
        self._clock = clock
        self._configs = KeptTopic(cluster, f"{group}-configs", self.configs.replay, clock, is_ordered=True)
        self._statuses = KeptTopic(cluster, f"{group}-status", self.statuses.replay, clock)
        self._offsets: dict[str, tuple[KeptTopic, Offsets]] = {}
        self._noted: dict[bytes, Entry] = {}
        self._has_notes = asyncio.Event()
        self._writing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Read it all; topics that are missing are made."""
        for topic in (self._configs, self._statuses):
            await topic.open()
            await topic.refresh()
        await self.offsets(self.offsets_topic)
        self._writing = asyncio.create_task(self._keep_writing())

    async def close(self) -> None:
        """Write what is still to be written, if that can be."""
        if self._writing is not None:
            self._writing.cancel()
            with suppress(asyncio.CancelledError):
                await self._writing
            with suppress(TimeoutError, OSError, ProtocolError):
                await asyncio.wait_for(self._write_notes(), LAST_WRITES_S)

    async def write_configs(self, entries: Sequence[Entry]) -> None:
        """Have configs say this, before anybody is told so."""
        await self._configs.write(entries)

    async def refresh_configs(self) -> None:
        """Read what configs say, whoever wrote it."""
        await self._configs.refresh()

    async def offsets(self, topic: str, *, to_end: bool = False) -> Offsets:
        """What a topic of offsets says now, as far as transactions have ended.

        ``to_end``: everything that was written before, for which those that are open now must end.
        """
        if topic not in self._offsets:
            offsets = Offsets()
            kept = KeptTopic(self._cluster, topic, offsets.replay, self._clock)
            await kept.open()
            self._offsets.setdefault(topic, (kept, offsets))
        kept, offsets = self._offsets[topic]
        await kept.refresh(to_end=to_end)
        return offsets

    async def write_offsets(self, topic: str, entries: Sequence[Entry]) -> None:
        """Have a topic of offsets, which was read before, say this."""
        await self._offsets[topic][0].write(entries)

    def note(self, entries: Iterable[Entry]) -> None:
        """Have statuses say this before long: brokers that are away hold nobody up."""
        for each in entries:
            self._noted.pop(each.key, None)
            self._noted[each.key] = each
        self._has_notes.set()

    async def _keep_writing(self) -> None:
        while True:
            await self._has_notes.wait()
            self._has_notes.clear()
            try:
                await self._write_notes()
            except (OSError, ProtocolError) as error:
                logger.warning("statuses are not written now: %s", error)
                self._has_notes.set()
                await asyncio.sleep(RETRY_S)

    async def _write_notes(self) -> None:
        notes = dict(self._noted)
        await self._statuses.write(list(notes.values()))
        for key, each in notes.items():
            if self._noted.get(key) is each:
                del self._noted[key]
