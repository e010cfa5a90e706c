"""A sink as Spark writes to it: its topics as they are read, records made of their bytes, dead letters on the side."""

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain as chained
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from millstream.model.ids import TopicPartition
from millstream.pipelines.connect.base import Batch
from millstream.pipelines.connect.chain import SinkChain
from millstream.pipelines.connect.errors import ConnectError, DataError
from millstream.pipelines.connect.job import Job
from millstream.pipelines.connect.letters import Raw
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.spark.assembly import JOB_OPTION, query_of, sink_of, surroundings
from millstream.pipelines.connect.spark.gate import Gate
from millstream.pipelines.connect.spark.letters import options_of, send_letters, write_letters
from millstream.pipelines.connect.spark.rows import raws
from millstream.pipelines.connect.tolerance import Intolerable
from millstream.pipelines.spark.options import SourceOptions, stream_options
from millstream.pipelines.spark.planning import Document, Offsets, from_document, to_document
from millstream.pipelines.spark.sink.process import sink_process
from millstream.pipelines.spark.sink.protocol import Plan, Transaction, abort_plan, commit_plan
from millstream.pipelines.spark.source import MillstreamDataSource, StreamReader
from millstream.pipelines.spark.workers import spare_collections

#: How often a task is run before its batch is given up and the process with it: a worker may have died by itself.
TASK_TRIES = 2
_BATCH_ID = "streaming.sql.batchId"
_QUERY_ID = "sql.streaming.queryId"


class ConnectSink(MillstreamDataSource):
    """``format("millstream-connect-sink")``: topics as ``format("millstream")`` reads them, and the sink for them."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        given = dict(options)
        self._job = Job.from_line(given.pop(JOB_OPTION).encode())
        super().__init__(given)

    @classmethod
    def name(cls) -> str:
        return "millstream-connect-sink"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return TopicsReader(stream_options(self._given), Gate(self._job.folder))

    def streamWriter(self, schema: StructType, overwrite: bool) -> "SinkWriter":
        return SinkWriter(self._job)


class TopicsReader(StreamReader):
    """Topics that may come later, from their beginning on, and that the config may change.

    Where it names others than before, the new ones begin where they are told to (``startingOffsets``), and of those
    that it names no more nobody says that they were lost.
    """

    def __init__(self, options: SourceOptions, gate: Gate) -> None:
        super().__init__(options)
        self._gate = gate
        #: Where partitions begin that no batch has had yet; for the first batch that this process plans.
        self._told: Mapping[TopicPartition, int] = options.starting.offsets or {}
        self._first: Document | None = None

    def initialOffset(self) -> Document:
        return to_document(self._options.starting.offsets or {})

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if not self._gate.may_plan():
            return start
        if self._first is None:
            self._first = start
        elif start != self._first:
            self._told = {}
        return super().latestOffset(to_document(self._starts(start)), limit)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        stops = from_document(end)
        starts = {tp: offset for tp, offset in self._starts(start).items() if tp in stops}
        return super().partitions(to_document(starts), end)

    def _starts(self, document: dict[str, Any]) -> Offsets:
        selection = self._options.selection
        known = {**self._told, **from_document(document)}
        if selection.topics:
            return {tp: offset for tp, offset in known.items() if tp.topic in selection.topics}
        return {tp: offset for tp, offset in known.items() if selection.matches(tp.topic)}


@dataclass
class Taken(WriterCommitMessage):
    """What a task gave to the sink, and the dead letters that are to be committed with it."""

    query: str
    parts: tuple[Any, ...]
    letters: Transaction | None


class SinkWriter(DataSourceStreamArrowWriter):
    """Gives batches to a sink."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Taken:
        spare_collections()
        context = TaskContext.get()
        assert context is not None, "a task of a streaming query knows itself"
        number, query = context.getLocalProperty(_BATCH_ID), context.getLocalProperty(_QUERY_ID)
        assert number is not None and query is not None
        batch = Batch(query_of(self._job, query), int(number))
        task = Taking(self._job, context.partitionId() % self._job.tasks_max)
        try:
            parts = task.take(iterator, batch)
        except Intolerable:
            if context.attemptNumber() == TASK_TRIES - 1:
                with suppress(Exception):  # That the connector ends is to be told in any case.
                    send_letters(self._job, task.letters())
            raise
        return Taken(batch.query, parts, write_letters(self._job, task.letters(), batch, task.number))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        told = [message for message in messages if isinstance(message, Taken)]
        parts = [part for message in told for part in message.parts]
        if parts:
            sink = sink_of(self._job)
            try:
                sink.commit(Batch(told[0].query, batchId), parts)
            finally:
                sink.close()
        self._settle(told, lambda letters: commit_plan(batchId, letters))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        told = [message for message in messages if isinstance(message, Taken)]
        self._settle(told, lambda letters: abort_plan(batchId, letters))

    def _settle(self, told: Sequence[Taken], plan: Callable[[list[Transaction]], Plan]) -> None:
        letters = [message.letters for message in told if message.letters is not None]
        if letters:
            here = sink_process(options_of(self._job))
            here.run(here.driver(told[0].query).carry_out(plan(letters)))


class Taking:
    """A task's records on their way into the sink."""

    def __init__(self, job: Job, number: int) -> None:
        self.number = number
        self._job = job
        self._chain = SinkChain(job.config, surroundings(), number)
        #: What was read so far: a sink may refuse a record long after it came.
        self._read: list[pa.RecordBatch] = []
        self._is_through = False

    def take(self, batches: Iterator[pa.RecordBatch], batch: Batch) -> tuple[Any, ...]:
        """What the sink says of them, one topic partition after the other; nothing where there were none."""
        by_partition = groupby(self._raws(batches), lambda raw: (raw.topic, raw.partition))
        return tuple(part for _, group in by_partition for part in self._give(self._chain.decode_all(group), batch))

    def _give(self, records: Iterator[Record], batch: Batch) -> tuple[Any, ...]:
        self._read, self._is_through = self._read[-1:], False
        first = next(records, None)
        if first is None:
            return ()
        sink = sink_of(self._job)
        sink.refuse = self._refuse  # type: ignore[method-assign]
        try:
            part = sink.write(self._to_the_end(chained((first,), records)), batch)
        finally:
            sink.close()
        if not self._is_through:
            raise ConnectError(f"{type(sink).__name__}.write returned before it had taken all records")
        return (part,)

    def letters(self) -> list[Raw]:
        """The dead letters so far."""
        return self._chain.take_letters()

    def _raws(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Raw]:
        for batch in batches:
            self._read.append(batch)
            yield from raws(batch)

    def _to_the_end(self, records: Iterator[Record]) -> Iterator[Record]:
        yield from records
        self._is_through = True

    def _refuse(self, record: Record, error: DataError) -> None:
        for batch in self._read:
            for place in pc.indices_nonzero(pc.equal(batch.column("offset"), record.offset)).to_pylist():
                [raw] = raws(batch.slice(place, 1))
                if (raw.topic, raw.partition) == (record.origin, record.partition):
                    self._chain.reject(raw, error)
                    return
        raise error
