"""Printing records as a member of a consumer group: at least once, with offsets committed behind what was printed."""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from millstream.cli.positions import Range
from millstream.cli.reading import Offsets, resolve
from millstream.cli.waiting import coordinators_of
from millstream.client.cluster import Cluster
from millstream.client.coordinators import Coordinators
from millstream.client.groups import committed_offsets
from millstream.client.lag import spans_of
from millstream.client.membership import Membership
from millstream.client.reader import Read, Reader
from millstream.model.ids import TopicPartition

COMMIT_EACH_S = 1.0
#: How long the last commit may take when the command is told to end.
LAST_COMMIT_S = 5.0


class Wanted(NamedTuple):
    """What to read: from ``span`` where the group has no offset yet; ``limit`` records at most."""

    topics: Sequence[str]
    span: Range
    isolation: int
    limit: int | None = None
    until_end: bool = False


class GroupReading:
    """One member's work, over as many generations of its group as it takes."""

    def __init__(self, cluster: Cluster, group: str, wanted: Wanted, show: Callable[[Read], None]) -> None:
        self._cluster = cluster
        self._coordinators: Coordinators = coordinators_of(cluster)
        self._member = Membership(self._coordinators, group, wanted.topics)
        self._wanted = wanted
        self._show = show
        self._left = wanted.limit
        #: What was printed and not yet committed.
        self._printed: Offsets = {}

    async def run(self) -> None:
        """Until the count is reached, or the end if that is wanted; else for ever."""
        try:
            while not await self._generation(await self._member.join()):
                pass
        finally:
            # Here too when Ctrl-C or a reader that left has cancelled us.
            try:
                async with asyncio.timeout(LAST_COMMIT_S):
                    await self._commit()
            finally:
                await self._member.leave()

    async def _generation(self, partitions: list[TopicPartition]) -> bool:
        """Read our partitions until the group is shared out anew; True when there is nothing left to do."""
        reading = asyncio.create_task(self._read(partitions))
        keeping = [asyncio.create_task(self._member.beat()), asyncio.create_task(self._keep_committing())]
        try:
            done, _ = await asyncio.wait([reading, *keeping], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (reading, *keeping):
                task.cancel()
            await asyncio.gather(reading, *keeping, return_exceptions=True)
        if reading not in done:
            await self._commit()  # Whoever gets our partitions goes on from there.
        return reading in done

    async def _read(self, partitions: list[TopicPartition]) -> None:
        starts, stops = await self._places(partitions)
        reader = Reader(self._cluster, starts, stops, isolation=self._wanted.isolation)
        async for read in reader.read():
            tp = read.partition
            position = reader.positions.get(tp, stops.get(tp))
            if self._left is not None and len(read.records) >= self._left:
                read = read._replace(records=read.records[: self._left])
                position = read.records[-1].offset + 1
            self._show(read)
            assert position is not None, "only a stop ends a partition"
            self._printed[tp] = position
            if self._left is not None:
                self._left -= len(read.records)
                if not self._left:
                    return
        if not self._wanted.until_end and self._wanted.span.stop is None:
            await asyncio.Event().wait()  # No partition is ours now; another sharing out may bring some.

    async def _places(self, partitions: list[TopicPartition]) -> tuple[Offsets, Offsets]:
        wanted = self._wanted
        if not partitions:
            return {}, {}
        starts, stops = await resolve(
            self._cluster, partitions, wanted.span, wanted.isolation, until_end=wanted.until_end
        )
        committed = await committed_offsets(self._coordinators, self._member.group)
        spans = await spans_of(self._cluster, [tp for tp in partitions if tp in committed])
        for tp, span in spans.items():  # Retention may have overtaken the group.
            starts[tp] = min(max(committed[tp].offset, span.start), span.end)
        return starts, stops

    async def _keep_committing(self) -> None:
        while True:
            await asyncio.sleep(COMMIT_EACH_S)
            if not await self._commit():
                return

    async def _commit(self) -> bool:
        """False when the group has gone on without us; what it has of ours is then read again."""
        printed, self._printed = self._printed, {}
        return not printed or await self._member.commit(printed)
