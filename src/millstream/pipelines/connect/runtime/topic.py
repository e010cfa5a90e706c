"""A compacted topic as a place to keep things: written record by record, read from its start to its end."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence

from millstream.client.admin import NewTopic, Resource, create_topics, describe_configs
from millstream.client.cluster import RETRY_PAUSE_S, Cluster
from millstream.client.partitioner import partition_of
from millstream.client.partitions import (
    ACKS_ALL,
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    list_offsets,
    produce,
)
from millstream.client.reader import Reader
from millstream.client.wire import ConnectionLost
from millstream.model.clock import Clock
from millstream.model.errors import ErrorCode
from millstream.model.ids import TopicPartition
from millstream.model.records import Record, encode_batch
from millstream.pipelines.connect.runtime.entries import BadEntry, Entry
from millstream.pipelines.running.failures import PipelineError

logger = logging.getLogger(__name__)

#: As many as there are brokers, but no more than this.
REPLICAS_MAX = 3
READ_WAIT_MS = 100
#: A batch holds about this at most, well below what brokers take: the traces of many tasks are large together.
BATCH_BYTES = 256 * 1024
POLICY, COMPACT = "cleanup.policy", "compact"


class KeptTopic:
    """A topic, and what ``replay`` made of its records up to the last ``refresh``."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        replay: Callable[[Entry], None],
        clock: Clock,
        *,
        is_ordered: bool = False,
    ) -> None:
        """``is_ordered``: its records mean something only in their one order."""
        self.name = name
        self._is_ordered = is_ordered
        self._cluster = cluster
        self._clock = clock
        self._replay = replay
        self._positions: dict[TopicPartition, int] = {}
        self._lock = asyncio.Lock()

    async def open(self) -> None:
        """Make the topic unless it is there, where it must be such that it keeps things.  ``refresh`` reads it."""
        await self._cluster.refresh([])
        new = NewTopic(self.name, 1, min(REPLICAS_MAX, len(self._cluster.brokers)), {POLICY: COMPACT})
        [made] = await create_topics(self._cluster, [new])
        if made.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            made.raise_if_refused()
        else:
            await self._check_policy()
        topic = await self._cluster.topic(self.name, is_new=True)
        if self._is_ordered and len(topic.partitions) != 1:
            raise PipelineError(f"topic {self.name} must have one partition, and has {len(topic.partitions)}")
        starts = {TopicPartition(self.name, part.index): EARLIEST for part in topic.partitions}
        self._positions = {tp: it.offset for tp, it in (await list_offsets(self._cluster, starts)).items()}

    async def _check_policy(self) -> None:
        """PipelineError for a topic that deletes what is old: it would forget, though nobody told it to."""
        found = {each.name: each.value for each in await describe_configs(self._cluster, Resource.TOPIC, self.name)}
        if found.get(POLICY) != COMPACT:
            raise PipelineError(
                f"topic {self.name} must have {POLICY}={COMPACT}, and has {found.get(POLICY)}: in time, it would "
                f"delete what it keeps"
            )

    async def refresh(self, *, to_end: bool = True) -> None:
        """Read up to the end, for which open transactions must end, or only as far as all of them are ended."""
        ends = await self._ends(READ_UNCOMMITTED) if to_end else {}
        deadline_s = asyncio.get_running_loop().time() + self._cluster.timeout_s
        while True:
            async with self._lock:
                await self._read()
            if all(self._positions[tp] >= end for tp, end in ends.items()):
                return
            if asyncio.get_running_loop().time() >= deadline_s:
                raise TimeoutError(f"topic {self.name} could not be read to its end: a transaction is open in it")
            await asyncio.sleep(RETRY_PAUSE_S)

    async def write(self, entries: Sequence[Entry]) -> None:
        """Write, and read it back: from then on, whoever reads finds it, whatever transactions are open.

        Written twice, where a first try was not answered, it says the same.
        """
        if not entries:
            return
        async with self._lock:
            shares: dict[TopicPartition, list[Record]] = {}
            for each in entries:
                tp = TopicPartition(self.name, partition_of(each.key, len(self._positions)))
                record = Record(timestamp=self._clock.now_ms(), key=each.key, value=each.value)
                shares.setdefault(tp, []).append(record)
            for tp, records in shares.items():
                for some in _portions(records):
                    await self._produce(tp, encode_batch(some))
        await self.refresh()

    async def _produce(self, tp: TopicPartition, batch: bytearray) -> None:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._cluster.timeout_s
        while True:
            try:
                await produce(self._cluster, tp, batch, acks=ACKS_ALL)
                return
            except ConnectionLost:
                if loop.time() >= deadline_s:
                    raise
            self._cluster.forget([self.name])
            await asyncio.sleep(RETRY_PAUSE_S)

    async def _ends(self, isolation: int) -> dict[TopicPartition, int]:
        asked = dict.fromkeys(self._positions, LATEST)
        return {tp: it.offset for tp, it in (await list_offsets(self._cluster, asked, isolation=isolation)).items()}

    async def _read(self) -> None:
        """Read as far as transactions are ended."""
        ends = await self._ends(READ_COMMITTED)
        reader = Reader(self._cluster, self._positions, ends, isolation=READ_COMMITTED, wait_ms=READ_WAIT_MS)
        async for _, records in reader.read():
            for record in records:
                self._take(record)
        self._positions = {tp: max(position, ends[tp]) for tp, position in self._positions.items()}

    def _take(self, record: Record) -> None:
        if record.key is None:
            logger.warning("topic %s, offset %d: a record without a key is passed over", self.name, record.offset)
            return
        try:
            self._replay(Entry(record.key, record.value))
        except BadEntry as error:
            logger.warning("topic %s, offset %d: %s; it is passed over", self.name, record.offset, error)


def _portions(records: Sequence[Record]) -> Iterator[list[Record]]:
    """The records in order, as many at a time as one batch should hold."""
    portion: list[Record] = []
    size = 0
    for record in records:
        own = len(record.key or b"") + len(record.value or b"")
        if portion and size + own > BATCH_BYTES:
            yield portion
            portion, size = [], 0
        portion.append(record)
        size += own
    if portion:
        yield portion
