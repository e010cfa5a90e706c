"""A task: ranges of partitions fetched from the source and sent on, all in one transaction that is left open."""

import asyncio
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import pyarrow as pa

from millstream.client.cluster import Cluster
from millstream.client.partitions import EARLIEST, READ_COMMITTED, Fetched, list_offsets
from millstream.client.producing import ProducerId
from millstream.client.wire import parse_addresses
from millstream.model.ids import TopicPartition
from millstream.pipelines.mirror.rewriting import rewritten
from millstream.pipelines.mirror.sending import Sender
from millstream.pipelines.mirror.translation import Run
from millstream.pipelines.spark.reading import fetch_from
from millstream.pipelines.spark.sink.options import SinkOptions, sink_options
from millstream.pipelines.spark.sink.process import SinkProcess, sink_process
from millstream.pipelines.spark.sink.protocol import Transaction

CLIENT_ID = "millstream-mirror"
#: What one fetch asks for; of each partition one is read while another is sent.
FETCH_BYTES = 2 * 1024 * 1024
_FETCH_BYTES_MAX = 1 << 30
#: Partitions that a task reads at once; what it holds is so many times what is fetched and sent of each.
AT_ONCE = 8


class Stretch(NamedTuple):
    """What is to be passed on of a partition, and the topic it goes to."""

    topic: str
    partition: int
    start: int
    stop: int
    remote: str


@dataclass(frozen=True, slots=True)
class Work:
    """What every task of a flow is told."""

    source_bootstrap: str
    target_bootstrap: str
    query: str
    timeout_ms: int

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
    #: Records that were gone before they could be read.
    lost: int = 0
    runs: Mapping[TopicPartition, list[Run]] = MappingProxyType({})

    def to_text(self) -> str:
        runs = [[*tp, [list(run) for run in runs]] for tp, runs in self.runs.items()]
        return json.dumps([self.transaction, self.records, self.size_bytes, self.lost, runs])

    @staticmethod
    def from_text(text: str) -> "Done":
        transaction, records, size_bytes, lost, runs = json.loads(text)
        return Done(
            Transaction(*transaction) if transaction else None,
            records,
            size_bytes,
            lost,
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
    task = _Task(here, _SOURCES[key], work.query)
    try:
        return here.run(task.run(stretches))
    except BaseException:
        with suppress(Exception):
            here.run(task.give_up())
        raise


class _Task:
    def __init__(self, here: SinkProcess, source: Cluster, query: str) -> None:
        self._here = here
        self._source = source
        self._query = query
        self._transaction: Transaction | None = None
        self._sender: Sender | None = None
        self._beginning = asyncio.Lock()
        self._at_once = asyncio.Semaphore(AT_ONCE)
        self._lost = 0

    async def run(self, stretches: Sequence[Stretch]) -> Done:
        async with asyncio.TaskGroup() as group:
            for stretch in stretches:
                group.create_task(self._pass(stretch))
        sender = self._sender
        if sender is None:
            return Done(lost=self._lost)
        await sender.flush()
        runs = {
            TopicPartition(each.topic, each.partition): sender.runs(TopicPartition(each.remote, each.partition))
            for each in stretches
        }
        return Done(self._transaction, sender.records, sender.size_bytes, self._lost, runs)

    async def give_up(self) -> None:
        if self._sender is not None:
            await self._sender.cancel()
        if self._transaction is not None:
            await self._here.take_back(self._transaction)

    async def _pass(self, stretch: Stretch) -> None:
        async with self._at_once:
            tp, target = (
                TopicPartition(stretch.topic, stretch.partition),
                TopicPartition(stretch.remote, stretch.partition),
            )
            position, stop, bytes_max = stretch.start, stretch.stop, FETCH_BYTES
            fetching = self._fetch(tp, position, stop, bytes_max)
            try:
                while position < stop:
                    fetched = await fetching
                    if fetched.error_code:
                        position = await self._after_loss(tp, position, stop)
                        fetching = self._fetch(tp, position, stop, bytes_max)
                        continue
                    batches, reached = rewritten(fetched.records, fetched.aborted, position, stop, str(tp))
                    if reached == position:  # Not one whole batch fitted.
                        bytes_max = min(2 * bytes_max, _FETCH_BYTES_MAX)
                    position = reached
                    fetching = self._fetch(tp, position, stop, bytes_max)
                    for outgoing in batches:
                        sender = self._sender or await self._begin()
                        await sender.send(target, outgoing)
            finally:
                fetching.cancel()

    def _fetch(self, tp: TopicPartition, position: int, stop: int, bytes_max: int) -> "asyncio.Future[Fetched]":
        """A fetch that is under way; one that never ends where there is nothing left."""
        if position >= stop:
            return asyncio.get_running_loop().create_future()
        return asyncio.ensure_future(
            fetch_from(self._source, tp, position, stop=stop, bytes_max=bytes_max, isolation=READ_COMMITTED)
        )

    async def _after_loss(self, tp: TopicPartition, position: int, stop: int) -> int:
        """Where to go on after an offset that is not there: retention was quicker, or the log was cut."""
        earliest = (await list_offsets(self._source, {tp: EARLIEST}))[tp].offset
        found = min(earliest, stop) if earliest > position else stop
        self._lost += found - position
        return found

    async def _begin(self) -> Sender:
        async with self._beginning:
            if self._sender is None:
                self._transaction = await self._here.begin(self._query, timeout_ms=0, is_two_phase=True)
                name, producer_id, epoch, _ = self._transaction
                producer = ProducerId(producer_id, epoch)
                self._sender = Sender(self._here.coordinators, producer, name)
            return self._sender
