"""A compacted topic as a place to keep things: written record by record, read from its start to its end."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from millstream.client.admin import NewTopic, create_topics
from millstream.client.cluster import RETRY_PAUSE_S, Cluster
from millstream.client.partitioner import partition_of
from millstream.client.partitions import ACKS_ALL, EARLIEST, LATEST, READ_COMMITTED, list_offsets, produce
from millstream.client.reader import Reader
from millstream.client.wire import ConnectionLost
from millstream.model.clock import Clock
from millstream.model.errors import ErrorCode
from millstream.model.ids import TopicPartition
from millstream.model.records import Record, encode_batch
from millstream.pipelines.connect.runtime.entries import BadEntry, Entry

logger = logging.getLogger(__name__)

#: As many as there are brokers, but no more than this.
REPLICAS_MAX = 3
READ_WAIT_MS = 100


class KeptTopic:
    """A topic, and what ``replay`` made of its records up to the last ``refresh``."""

    def __init__(self, cluster: Cluster, name: str, replay: Callable[[Entry], None], clock: Clock) -> None:
        self.name = name
        self._cluster = cluster
        self._clock = clock
        self._replay = replay
        self._positions: dict[TopicPartition, int] = {}
        self._lock = asyncio.Lock()

    async def open(self) -> None:
        """Make the topic unless it is there, and read it; a topic that is there keeps its partitions."""
        await self._cluster.refresh([])
        new = NewTopic(self.name, 1, min(REPLICAS_MAX, len(self._cluster.brokers)), {"cleanup.policy": "compact"})
        [made] = await create_topics(self._cluster, [new])
        if made.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            made.raise_if_refused()
        topic = await self._cluster.topic(self.name, is_new=True)
        starts = {TopicPartition(self.name, part.index): EARLIEST for part in topic.partitions}
        self._positions = {tp: it.offset for tp, it in (await list_offsets(self._cluster, starts)).items()}
        await self.refresh()

    async def refresh(self) -> None:
        """Read up to the end, as far as transactions are ended."""
        async with self._lock:
            await self._read()

    async def write(self, entries: Sequence[Entry]) -> None:
        """Write, and read it back.  Written twice, where a first try was not answered, it says the same."""
        if not entries:
            return
        async with self._lock:
            shares: dict[TopicPartition, list[Record]] = {}
            for each in entries:
                tp = TopicPartition(self.name, partition_of(each.key, len(self._positions)))
                record = Record(timestamp=self._clock.now_ms(), key=each.key, value=each.value)
                shares.setdefault(tp, []).append(record)
            for tp, records in shares.items():
                await self._produce(tp, encode_batch(records))
            await self._read()

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

    async def _read(self) -> None:
        asked = dict.fromkeys(self._positions, LATEST)
        ends = {
            tp: found.offset
            for tp, found in (await list_offsets(self._cluster, asked, isolation=READ_COMMITTED)).items()
        }
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
