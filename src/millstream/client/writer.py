"""Records into batches, batches into a topic: for tools that write what they are given and then end."""

import asyncio
from dataclasses import dataclass, field

from millstream.client.cluster import Cluster
from millstream.client.partitioner import partition_of
from millstream.client.partitions import ACKS_ALL, ACKS_NONE, NO_OFFSET, produce
from millstream.model.ids import TopicPartition
from millstream.model.records import Record, encode_batch

#: A batch is sent once its records, uncompressed, reach this; with headers it stays below a broker's default limit.
BATCH_BYTES = 900_000
#: What a record takes besides its key, value and headers; a generous guess.
RECORD_OVERHEAD_BYTES = 24


@dataclass(slots=True)
class Written:
    """What went to one partition; offsets are -1 where the broker did not tell them."""

    records: int = 0
    first_offset: int = NO_OFFSET
    last_offset: int = NO_OFFSET


@dataclass(slots=True)
class _Open:
    """A batch being filled."""

    records: list[Record] = field(default_factory=list)
    size_bytes: int = 0


class Writer:
    """Gathers records by partition and sends a batch when it is full, or when ``flush`` is called.

    Each partition has one batch on its way at a time, so its records keep their order whatever is retried.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        partitions: int,
        *,
        acks: int = ACKS_ALL,
        compression: int = 0,
        first: int = 0,
    ) -> None:
        self.written: dict[int, Written] = {}
        self.records = 0
        self.size_bytes = 0
        self._cluster = cluster
        self._topic = topic
        self._partitions = partitions
        self._acks = acks
        self._compression = compression
        self._keyless = first % partitions
        self._open: dict[int, _Open] = {}
        self._sending: dict[int, asyncio.Task[None]] = {}

    async def add(self, record: Record, partition: int | None = None) -> None:
        """Take a record: to the partition given, or its key's, or the one keyless records go to for now."""
        if partition is None:
            partition = self._keyless if record.key is None else partition_of(record.key, self._partitions)
        batch = self._open.setdefault(partition, _Open())
        size_bytes = len(record.key or b"") + len(record.value or b"") + RECORD_OVERHEAD_BYTES
        size_bytes += sum(len(name) + len(value or b"") + 4 for name, value in record.headers)
        if batch.records and batch.size_bytes + size_bytes > BATCH_BYTES:
            await self._send(partition)
            batch = self._open.setdefault(partition, _Open())
        batch.records.append(record)
        batch.size_bytes += size_bytes
        self.records += 1
        self.size_bytes += len(record.key or b"") + len(record.value or b"")

    async def flush(self) -> None:
        """Send everything taken so far and return when the broker has acknowledged it, or with acks 0 received it."""
        for partition in list(self._open):
            await self._send(partition)
        await asyncio.gather(*self._sending.values())
        if self._acks == ACKS_NONE:
            await self._arrival()

    async def _arrival(self) -> None:
        """Nothing acknowledges these batches; but a broker that answers a later question has seen them."""
        leaders = {await self._cluster.leader(TopicPartition(self._topic, partition)) for partition in self._sending}
        for connection in leaders:
            await connection.negotiate(self._cluster.timeout_s)

    async def _send(self, partition: int) -> None:
        batch = self._open.pop(partition)
        if partition == self._keyless:  # Keyless records fill one batch after the other, each to the next partition.
            self._keyless = (self._keyless + 1) % self._partitions
        if before := self._sending.get(partition):
            await before
        self._sending[partition] = asyncio.create_task(self._produce(partition, batch.records))

    async def _produce(self, partition: int, records: list[Record]) -> None:
        tp = TopicPartition(self._topic, partition)
        encoded = encode_batch(records, compression=self._compression)
        produced = await produce(self._cluster, tp, encoded, acks=self._acks)
        written = self.written.setdefault(partition, Written())
        written.records += len(records)
        if produced.base_offset != NO_OFFSET:
            if written.first_offset == NO_OFFSET:
                written.first_offset = produced.base_offset
            written.last_offset = produced.base_offset + len(records) - 1
