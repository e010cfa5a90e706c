"""A task's work: rows gathered from Spark, routed, encoded and sent, all in one transaction that is left open."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

import pyarrow as pa

from millstream.client.producing import ProducerId, idempotent_producer_id
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.pipelines.spark.sink.encoding import Rows
from millstream.pipelines.spark.sink.options import TIME_COLUMN, SinkOptions
from millstream.pipelines.spark.sink.process import SinkProcess
from millstream.pipelines.spark.sink.protocol import Transaction
from millstream.pipelines.spark.sink.routing import Chunk, Router, RowError
from millstream.pipelines.spark.sink.sending import Sender, Sending

#: Rows are gathered up to this before they are encoded: many at a time is what makes it fast.
CHUNK_BYTES = 4 * 1024 * 1024
#: How much longer than the last acknowledgement an answer is waited for that can wait.
_LOOK_AHEAD_S = 0.005


class Layout(NamedTuple):
    """Where each known column is in the rows."""

    places: Mapping[str, int]

    def column(self, table: pa.Table, name: str) -> pa.Array | None:
        place = self.places.get(name)
        if place is None:
            return None
        column = table.column(place).combine_chunks()
        return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column

    def chunk(self, table: pa.Table, *, has_topic: bool) -> Chunk:
        """The rows of a table; the topic's column only where it is asked for."""
        value = self.column(table, "value")
        assert value is not None, "the schema was checked"
        headers = self.column(table, "headers")
        if headers is not None and headers.flatten().field(0).null_count:
            raise RowError("a header has no name: its key is null")
        return Chunk(
            Rows(value, self.column(table, "key"), headers, self.column(table, TIME_COLUMN)),
            None if has_topic else self.column(table, "topic"),
            self.column(table, "partition"),
        )


class Done(NamedTuple):
    """What a task has written; no transaction where there were no rows, or none was wanted."""

    transaction: Transaction | None
    records: int
    size_bytes: int
    #: Its batch is decided, and has nothing that is left to be ended.
    is_settled: bool = False


def gathered(batches: Iterator[pa.RecordBatch], bytes_max: int) -> Iterator[pa.Table]:
    """The rows in tables of about so many bytes, and none without rows."""
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        held.append(batch)
        held_bytes += batch.nbytes
        if held_bytes >= bytes_max:
            yield pa.Table.from_batches(held)
            held, held_bytes = [], 0
    if held:
        yield pa.Table.from_batches(held)


def write_rows(
    here: SinkProcess,
    options: SinkOptions,
    layout: Layout,
    query: str,
    batch: int,
    rows: Iterator[pa.RecordBatch],
    first: int,
    is_two_phase: bool,
) -> Done:
    """Write a task's rows of a batch and wait until all are acknowledged. On failure they are taken back."""
    task = _Task(here, options, query, batch, first, is_two_phase)
    try:
        # Spark is busy with the first rows meanwhile. An id that is ready and that nothing is written under is spared.
        here.run(task.begin())
        for table in gathered(rows, min(CHUNK_BYTES, options.buffer_bytes // 4)):
            here.run(task.write(layout.chunk(table, has_topic=bool(options.topic))))
        here.run(task.finish())
    except BaseException:
        with suppress(Exception):
            here.run(task.give_up())
        raise
    sender = task.sender
    if sender is None or not sender.records:
        if task.transaction is not None:
            here.spare(query, task.transaction)
        return Done(None, 0, 0)
    return Done(task.transaction, sender.records, sender.size_bytes)


class _Task:
    def __init__(
        self, here: SinkProcess, options: SinkOptions, query: str, batch: int, first: int, is_two_phase: bool
    ) -> None:
        self.transaction: Transaction | None = None
        self.sender: Sender | None = None
        self._here = here
        self._options = options
        self._query = query
        self._batch = batch
        self._is_two_phase = is_two_phase and not options.transaction_timeout_ms
        self._looking: asyncio.Task[None] | None = None
        self._router = Router(first, options.batch_bytes, options.record_bytes_max)

    async def begin(self) -> None:
        """Make ready to send: under a transactional id, or an idempotent producer's."""
        here, options = self._here, self._options
        if options.is_exactly_once:
            self.transaction = await here.begin(
                self._query,
                self._batch,
                timeout_ms=options.transaction_timeout_ms,
                is_two_phase=self._is_two_phase,
            )
            name, producer_id, epoch, _ = self.transaction
            sending = Sending(ProducerId(producer_id, epoch), name, options.compression)
        else:
            producer = await idempotent_producer_id(here.coordinators.cluster)
            sending = Sending(producer, None, options.compression)
        self.sender = Sender(here.coordinators, sending, here.clock, options.buffer_bytes)

    async def write(self, chunk: Chunk) -> None:
        options = self._options
        counts = await partition_counts(self._here, options, chunk)
        assert self.sender is not None, "a task begins before it writes"
        if self._looking is None and options.is_exactly_once:
            self._looking = asyncio.create_task(self._look_ahead())
        for tp, rows in self._router.batches(chunk, options.topic, counts):
            await self.sender.send(tp, rows)

    async def finish(self) -> None:
        """Wait until all is acknowledged."""
        if self.sender is not None:
            await self.sender.flush()
        if self._looking is not None:
            await asyncio.wait([self._looking], timeout=_LOOK_AHEAD_S)

    async def _look_ahead(self) -> None:
        """While rows are on their way, spare the next batch's task the questions that this one had."""
        with suppress(Exception):  # Whatever is wrong, whoever needs an id finds out.
            await self._here.make_ready(self._query, self._batch)

    async def give_up(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        if self.sender is not None:
            await self.sender.cancel()
        if self.transaction is not None and self.sender is not None and self.sender.records:
            await self._here.take_back(self.transaction)


async def partition_counts(here: SinkProcess, options: SinkOptions, chunk: Chunk) -> dict[str, int]:
    """How many partitions each topic has that rows of the chunk go to; RowError for one that there is not."""
    counts = {topic: await _partition_count(here, options, topic) for topic in chunk.topics(options.topic)}
    for topic, count in counts.items():
        if chunk.last_partition() >= count:  # The topic may have been widened since it was looked up.
            here.forget_if_old(topic, 0)
            counts[topic] = await _partition_count(here, options, topic)
    return counts


async def _partition_count(here: SinkProcess, options: SinkOptions, name: str) -> int:
    cluster = here.coordinators.cluster
    here.forget_if_old(name, options.metadata_age_max_ms)
    try:
        topic = await cluster.retrying([name], lambda: cluster.topic(name, may_create=True))
    except ProtocolError as refusal:
        if refusal.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise RowError(
                f"topic={name}: there is no such topic at {options.bootstrap}, and none is made"
            ) from refusal
        raise RowError(f"topic={name}: {refusal}") from refusal
    return len(topic.partitions)
