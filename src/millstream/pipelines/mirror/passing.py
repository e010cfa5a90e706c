"""A task: ranges of partitions fetched from the source and sent on, all in one transaction that is left open."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, TypeVar

import pyarrow as pa

from millstream.client.cluster import RETRY_PAUSE_S, Cluster
from millstream.client.partitions import EARLIEST, READ_COMMITTED, Fetched, list_offsets
from millstream.client.producing import ProducerId
from millstream.client.wire import parse_addresses
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.pipelines.mirror.rewriting import rewritten
from millstream.pipelines.mirror.sending import Sender
from millstream.pipelines.mirror.translation import Run
from millstream.pipelines.spark.reading import fetch_from
from millstream.pipelines.spark.sink.options import SinkOptions, sink_options
from millstream.pipelines.spark.sink.process import SinkProcess, sink_process
from millstream.pipelines.spark.sink.protocol import Transaction

T = TypeVar("T")

CLIENT_ID = "millstream-mirror"
#: Where a stretch starts that begins with the first record there is.
FIRST = -1
#: What one fetch asks for; of each partition one is read while another is sent.
FETCH_BYTES = 2 * 1024 * 1024
_FETCH_BYTES_MAX = 1 << 30
#: Partitions that a task reads at once; what it holds is so many times what is fetched and sent of each.
AT_ONCE = 8


class Stretch(NamedTuple):
    """What is to be passed on of a partition, and the topic it goes to.

    One that stops before it starts passes nothing on: what was passed on before is no longer there.
    """

    topic: str
    partition: int
    start: int
    stop: int
    remote: str
    #: Of the topic that is meant, for there may be another of that name by now; empty where that is not known.
    id: str = ""


class TopicGone(Exception):
    """The topic was deleted, and maybe made again, before it was read."""


@dataclass(frozen=True, slots=True)
class Work:
    """What every task of a flow is told."""

    source_bootstrap: str
    target_bootstrap: str
    query: str
    timeout_ms: int
    #: Which micro-batch it is.
    batch: int = 0

    def options(self) -> SinkOptions:
        """The target, as the sink's protocol knows it."""
        return sink_options(
            {
                "kafka.bootstrap.servers": self.target_bootstrap,
                "kafka.request.timeout.ms": str(self.timeout_ms),
                "kafka.client.id": CLIENT_ID,
            }
        )


class Done(NamedTuple):
    """What a task has passed on; no transaction where there was nothing to."""

    transaction: Transaction | None = None
    records: int = 0
    size_bytes: int = 0
    #: What could not be passed on, and why: a sentence for each partition.
    losses: tuple[str, ...] = ()
    runs: Mapping[TopicPartition, list[Run]] = MappingProxyType({})

    def to_text(self) -> str:
        runs = [[*tp, [list(run) for run in runs]] for tp, runs in self.runs.items()]
        return json.dumps([self.transaction, self.records, self.size_bytes, self.losses, runs])

    @staticmethod
    def from_text(text: str) -> "Done":
        transaction, records, size_bytes, losses, runs = json.loads(text)
        return Done(
            Transaction(*transaction) if transaction else None,
            records,
            size_bytes,
            tuple(losses),
            {TopicPartition(topic, number): [Run(*run) for run in found] for topic, number, found in runs},
        )


#: Sources by process and target, whose loop they run in.
_SOURCES: dict[tuple[int, str, str], Cluster] = {}


def pass_rows(work: Work, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass on what the rows say, for ``mapInArrow``; one row says what was done."""
    stretches = [Stretch(**row) for batch in batches for row in batch.to_pylist()]
    done = pass_on(work, stretches)
    yield pa.RecordBatch.from_pydict({"done": [done.to_text()]})


def pass_on(work: Work, stretches: Sequence[Stretch]) -> Done:
    """Pass the stretches on and wait until all is acknowledged. On failure it is taken back."""
    if not stretches:
        return Done()
    here = sink_process(work.options())
    key = (os.getpid(), work.source_bootstrap, work.target_bootstrap)
    if key not in _SOURCES:
        addresses = parse_addresses(work.source_bootstrap)
        _SOURCES[key] = Cluster(addresses, client_id=CLIENT_ID, timeout_s=work.timeout_ms / 1000)
    task = _Task(here, _SOURCES[key], work)
    try:
        return here.run(task.run(stretches))
    except BaseException:
        with suppress(Exception):
            here.run(task.give_up())
        raise


class _Task:
    def __init__(self, here: SinkProcess, source: Cluster, work: Work) -> None:
        self._here = here
        self._source = source
        self._work = work
        self._transaction: Transaction | None = None
        self._sender: Sender | None = None
        self._beginning = asyncio.Lock()
        self._at_once = asyncio.Semaphore(AT_ONCE)
        self._losses: list[str] = []

    async def run(self, stretches: Sequence[Stretch]) -> Done:
        try:
            async with asyncio.TaskGroup() as group:
                for stretch in stretches:
                    group.create_task(self._pass(stretch))
        except ExceptionGroup as several:
            raise several.exceptions[0] from None  # By whose kind it is known whether another try may help.
        sender = self._sender
        if sender is None:
            return Done(losses=tuple(self._losses))
        await sender.flush()
        runs = {
            TopicPartition(each.topic, each.partition): sender.runs(TopicPartition(each.remote, each.partition))
            for each in stretches
        }
        return Done(self._transaction, sender.records, sender.size_bytes, tuple(self._losses), runs)

    async def give_up(self) -> None:
        if self._sender is not None:
            await self._sender.cancel()
        if self._transaction is not None:
            await self._here.take_back(self._transaction)

    async def _pass(self, stretch: Stretch) -> None:
        async with self._at_once:
            try:
                await self._pass_on(stretch)
            except TopicGone as gone:
                self._losses.append(str(gone))

    async def _pass_on(self, stretch: Stretch) -> None:
        tp = TopicPartition(stretch.topic, stretch.partition)
        target = TopicPartition(stretch.remote, stretch.partition)
        position, stop, bytes_max = stretch.start, stretch.stop, FETCH_BYTES
        if position == FIRST:
            position = await self._first(stretch)
        elif position > stop:
            self._losses.append(
                f"{tp}: it was passed on up to offset {position} and ends at {stop} now: its log was cut"
            )
        fetching = self._fetch(stretch, position, bytes_max)
        try:
            while position < stop:
                fetched = await fetching
                if fetched.error_code:
                    position = await self._after_loss(stretch, position)
                    fetching = self._fetch(stretch, position, bytes_max)
                    continue
                batches, reached = rewritten(fetched.records, fetched.aborted, position, stop, str(tp))
                if reached == position:  # Not one whole batch fitted.
                    bytes_max = min(2 * bytes_max, _FETCH_BYTES_MAX)
                position = reached
                fetching = self._fetch(stretch, position, bytes_max)
                for outgoing in batches:
                    sender = self._sender or await self._begin()
                    await sender.send(target, outgoing)
        finally:
            fetching.cancel()

    def _fetch(self, stretch: Stretch, position: int, bytes_max: int) -> "asyncio.Future[Fetched]":
        """A fetch that is under way; one that never ends where there is nothing left."""
        tp, stop = TopicPartition(stretch.topic, stretch.partition), stretch.stop
        if position >= stop:
            return asyncio.get_running_loop().create_future()

        def ask() -> Awaitable[Fetched]:
            return fetch_from(self._source, tp, position, stop=stop, bytes_max=bytes_max, isolation=READ_COMMITTED)

        return asyncio.ensure_future(self._asked(stretch, position, ask))

    async def _first(self, stretch: Stretch) -> int:
        """Where the partition's records begin."""
        tp = TopicPartition(stretch.topic, stretch.partition)
        found = await self._asked(stretch, 0, lambda: list_offsets(self._source, {tp: EARLIEST}))
        return found[tp].offset

    async def _after_loss(self, stretch: Stretch, position: int) -> int:
        """Where to go on after an offset that is not there: retention was quicker, or the log was cut."""
        tp, stop = TopicPartition(stretch.topic, stretch.partition), stretch.stop
        earliest = await self._first(stretch)
        found, why = (
            (min(earliest, stop), "retention was quicker") if earliest > position else (stop, "its log was cut")
        )
        self._losses.append(
            f"{tp}: {found - position} offsets from {position} on were gone before they were read: {why}"
        )
        return found

    async def _asked(self, stretch: Stretch, position: int, ask: Callable[[], Awaitable[T]]) -> T:
        """What the very topic answers that is meant; TopicGone when there was another, or none, for long enough."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._source.timeout_s
        while True:
            refusal: ProtocolError | None = None
            try:
                if await self._is_meant(stretch):
                    answer = await ask()
                    if await self._is_meant(stretch):  # It may have been made again meanwhile.
                        return answer
            except ProtocolError as fault:
                if fault.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                refusal = fault
            if loop.time() >= deadline_s:
                if await self._is_gone(stretch):
                    tp = TopicPartition(stretch.topic, stretch.partition)
                    raise TopicGone(
                        f"{tp}: the topic was deleted before offsets {position} to {stretch.stop} were read"
                    )
                if refusal is not None:
                    raise refusal
            await asyncio.sleep(RETRY_PAUSE_S)
            self._source.forget([stretch.topic])  # What is known, here or to a broker, may be from before it was made.

    async def _is_meant(self, stretch: Stretch) -> bool:
        return not stretch.id or (await self._source.topic(stretch.topic)).id.hex() == stretch.id

    async def _is_gone(self, stretch: Stretch) -> bool:
        """Whether the cluster has no such partition; brokers that have just started know neither topics nor brokers."""
        await self._source.refresh([stretch.topic])
        known = self._source.topics.get(stretch.topic)
        if known is None:
            return bool(self._source.brokers)
        is_another = bool(stretch.id) and known.id.hex() != stretch.id
        return is_another or all(part.index != stretch.partition for part in known.partitions)

    async def _begin(self) -> Sender:
        async with self._beginning:
            if self._sender is None:
                query, batch = self._work.query, self._work.batch
                self._transaction = await self._here.begin(query, batch, timeout_ms=0, is_two_phase=True)
                name, producer_id, epoch, _ = self._transaction
                producer = ProducerId(producer_id, epoch)
                self._sender = Sender(self._here.coordinators, producer, name)
            return self._sender
