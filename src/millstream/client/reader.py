"""Records out of partitions, from one offset to another: for tools that read without a group."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import NamedTuple

from millstream.client.cluster import RETRY_PAUSE_S, STALE, Cluster, StaleMetadata
from millstream.client.partitions import READ_UNCOMMITTED, Fetched, fetch
from millstream.client.wire import Connection, ConnectionLost, Unreachable
from millstream.model.batch import HEADER_BYTES, BatchHeader, header_at
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.model.records import ABORT, Record, control_kind, decode_batch

PARTITION_BYTES_MAX = 1024 * 1024
_BYTES_MAX = 1 << 30


class Read(NamedTuple):
    """Records of one partition, in order."""

    partition: TopicPartition
    records: list[Record]


class Reader:
    """Reads every partition from its start, until its stop where it has one.

    ``positions`` are the offsets that will be read next, of the partitions not yet at their stops.
    """

    def __init__(
        self,
        cluster: Cluster,
        starts: Mapping[TopicPartition, int],
        stops: Mapping[TopicPartition, int] | None = None,
        *,
        isolation: int = READ_UNCOMMITTED,
        wait_ms: int = 500,
    ) -> None:
        self._cluster = cluster
        self._stops = dict(stops or {})
        self.positions = {tp: start for tp, start in starts.items() if not self._is_past(tp, start)}
        self._isolation = isolation
        self._wait_ms = wait_ms
        self._partition_bytes_max = PARTITION_BYTES_MAX
        self._fetching: dict[asyncio.Task[list[Fetched]], list[TopicPartition]] = {}

    async def read(self) -> AsyncGenerator[Read, None]:
        """Records as they come, one fetch to each leader at a time; ends when every partition is at its stop."""
        try:
            while self.positions:
                await self._start_fetches()
                if not self._fetching:
                    await asyncio.sleep(RETRY_PAUSE_S)
                    continue
                done, _ = await asyncio.wait(self._fetching, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    for read in await self._finish(task):
                        yield read
        finally:
            for task in self._fetching:
                task.cancel()
            await asyncio.gather(*self._fetching, return_exceptions=True)

    async def _start_fetches(self) -> None:
        """Ask the leaders of all partitions that no fetch is under way for."""
        busy = {tp for partitions in self._fetching.values() for tp in partitions}
        idle = [tp for tp in self.positions if tp not in busy]
        leaders: dict[Connection, list[TopicPartition]] = {}
        for tp in idle:
            try:
                leaders.setdefault(await self._cluster.leader(tp), []).append(tp)
            except (StaleMetadata, Unreachable, ConnectionLost):  # An election is under way, or a broker is down.
                self._cluster.forget([tp.topic])
        for connection, partitions in leaders.items():
            task = asyncio.create_task(
                fetch(
                    self._cluster,
                    connection,
                    {tp: self.positions[tp] for tp in partitions},
                    partition_bytes_max=self._partition_bytes_max,
                    wait_ms=self._wait_ms,
                    isolation=self._isolation,
                )
            )
            self._fetching[task] = partitions

    async def _finish(self, task: asyncio.Task[list[Fetched]]) -> list[Read]:
        partitions = self._fetching.pop(task)
        try:
            rows = task.result()
        except (ConnectionLost, Unreachable):
            self._cluster.forget({tp.topic for tp in partitions})
            await asyncio.sleep(RETRY_PAUSE_S)
            return []
        found = []
        for row in rows:
            if row.error_code in STALE:
                self._cluster.forget({row.partition.topic})
                await asyncio.sleep(RETRY_PAUSE_S)
                await self._cluster.topic(row.partition.topic)  # Says so when the topic is gone.
            elif row.error_code:
                self._refuse(row)
            elif records := self._advance(row):
                found.append(Read(row.partition, records))
        return found

    def _advance(self, row: Fetched) -> list[Record]:
        """The records of a fetched partition that were asked for; moves its position behind them."""
        tp = row.partition
        position = before = self.positions[tp]
        stop = self._stops.get(tp)
        found: list[Record] = []
        for header, records in visible_batches(row.records, row.aborted):
            found += [
                record for record in records if record.offset >= before and (stop is None or record.offset < stop)
            ]
            position = header.next_offset
        if position == before and len(row.records):
            # Not one whole batch fitted: an old broker cuts even the first.
            self._partition_bytes_max = min(2 * self._partition_bytes_max, _BYTES_MAX)
        if self._is_past(tp, position):
            del self.positions[tp]
        else:
            self.positions[tp] = position
        return found

    def _refuse(self, row: Fetched) -> None:
        tp = row.partition
        if row.error_code is ErrorCode.OFFSET_OUT_OF_RANGE:
            raise ProtocolError(row.error_code, f"partition {tp} has no offset {self.positions[tp]}")
        raise ProtocolError(row.error_code, f"partition {tp}")

    def _is_past(self, tp: TopicPartition, position: int) -> bool:
        stop = self._stops.get(tp)
        return stop is not None and position >= stop


def visible_batches(fetched: memoryview, aborted: list[tuple[int, int]]) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """The whole batches in ``fetched`` with their records; none for markers and for aborted transactions."""
    for at, header, is_seen in seen_batches(fetched, aborted):
        yield header, decode_batch(fetched, at) if is_seen else []


def seen_batches(fetched: memoryview, aborted: list[tuple[int, int]]) -> Iterator[tuple[int, BatchHeader, bool]]:
    """Position and header of each whole batch, and whether it holds records that a reader is given."""
    starting = sorted(aborted, key=lambda transaction: transaction[1])
    aborting: set[int] = set()
    for at, header in whole_batches(fetched):
        while starting and starting[0][1] <= header.last_offset:
            aborting.add(starting.pop(0)[0])
        if header.is_control:
            if any(control_kind(record) == ABORT for record in decode_batch(fetched, at)):
                aborting.discard(header.producer_id)
            yield at, header, False
        else:
            yield at, header, not (header.is_transactional and header.producer_id in aborting)


def whole_batches(fetched: memoryview) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch that is there to its last byte."""
    at, end = 0, len(fetched)
    while end - at >= HEADER_BYTES:
        header = header_at(fetched, at)
        if header.size > end - at:
            return
        yield at, header
        at += header.size
