"""The sink as Spark sees it: tasks that write, and a driver that commits or takes back. docs/exactly_once.md."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from millstream.config.setting import SettingError
from millstream.pipelines.spark.checkpoint import query_id as query_id_of
from millstream.pipelines.spark.options import refuse
from millstream.pipelines.spark.sink.coordinator import Driver, Held
from millstream.pipelines.spark.sink.lone import LoneTask, NotAlone, can_go_with_decision, held_of, in_hand, note_of
from millstream.pipelines.spark.sink.options import APP_ID, SinkOptions, check_schema, sink_options
from millstream.pipelines.spark.sink.process import sink_process
from millstream.pipelines.spark.sink.protocol import BatchOutdated, Transaction, abort_plan
from millstream.pipelines.spark.sink.tasks import Layout, write_rows
from millstream.pipelines.spark.stages import PROPERTY, DeskLine, desk_line
from millstream.pipelines.spark.workers import spare_collections

#: The one batch of a job that is not part of a query.
_ONLY_BATCH = 0
#: How long a task that was killed may take to end what it is at; then, or soon after, Spark ends its process.
_LAST_WORDS_S = 0.5
_SWEEP_TIMEOUT_S = 10.0
_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"


@dataclass
class Written(WriterCommitMessage):
    """What a task wrote: a transaction that is still open, or nothing that has to be ended."""

    query: str
    transaction: Transaction | None
    records: int
    size_bytes: int
    #: The task was the whole batch, and has committed it.
    is_settled: bool = False


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
    """The writer of ``df.write``; SettingError for options or columns that will not do."""
    if overwrite:
        raise SettingError('mode=overwrite: a topic is only ever appended to; use mode("append")')
    return BatchWriter(options, schema)


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
    """The writer of ``df.writeStream``; in complete mode (``overwrite``) too, every result is appended.

    SettingError for options or columns that will not do. Who writes is known here, and which batch it is: under a name
    that another query may have had, its batches would be taken for written.
    """
    spare_collections()  # For each micro-batch Spark makes a writer, and collects garbage while its tasks run.
    writer = StreamWriter(options, schema)
    if app_id := writer.options.app_id:
        refuse(APP_ID, app_id, "is for foreachBatch; a stream that is written directly goes by its checkpointLocation")
    return writer


class _Sink:
    """What batch and stream have in common."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.options: SinkOptions = sink_options(options)
        self.layout = Layout(check_schema(schema, self.options))

    def _write(
        self, query: str, rows: Iterator[pa.RecordBatch], *, is_two_phase: bool, batch: int | None = None
    ) -> Written:
        """Write a task's rows; for the micro-batch that it is of, where no other number is given."""
        number, first = _micro_batch()
        done = write_rows(
            sink_process(self.options),
            self.options,
            self.layout,
            query,
            number if batch is None else batch,
            rows,
            first,
            is_two_phase,
        )
        return Written(query, *done)

    def _commit(self, query: str, batch: int, mine: Sequence[Transaction]) -> None:
        here = sink_process(self.options)
        here.run(here.driver(query).commit(batch, mine))

    def _abort(self, query: str, batch: int, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Take the batch back.

        Tasks without a message have failed, or were killed and may have come to their end unheard: what they left open
        nobody else would end before the query runs again, and readers would wait for that.
        """
        here = sink_process(self.options)
        driver, told = here.driver(query), _told(messages)
        mine = _transactions(told)
        if mine:
            here.run(driver.carry_out(abort_plan(batch, mine)))
        if len(told) < len(messages):
            with suppress(Exception):  # Nothing is known to be there; why the batch failed is known to others.
                here.run(asyncio.wait_for(self._sweep(driver, batch), _SWEEP_TIMEOUT_S))

    async def _sweep(self, driver: Driver, batch: int) -> None:
        await driver.carry_out(abort_plan(batch, ()))
        await asyncio.sleep(_LAST_WORDS_S)
        await driver.carry_out(abort_plan(batch, ()))


def _micro_batch() -> tuple[int, int]:
    """The number of the micro-batch that this task is of, and where its rows go first that may go anywhere: to another
    partition with each micro-batch, few as its tasks may be.
    """
    context = TaskContext.get()
    if context is None:
        return 0, 0
    number = int(context.getLocalProperty(_BATCH_ID) or 0)
    return number, context.partitionId() + number


def _attempt() -> int:
    """How often this task was tried before."""
    context = TaskContext.get()
    return 0 if context is None else context.attemptNumber()


def _told(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    """The messages of the tasks that came to their end."""
    return [message for message in messages if isinstance(message, Written)]


def _transactions(messages: Sequence[Written]) -> list[Transaction]:
    return [message.transaction for message in messages if message.transaction is not None]


class BatchWriter(_Sink, DataSourceArrowWriter):
    """Writes a DataFrame once: as a job of its own, or as the version of an application that says so."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        super().__init__(options, schema)
        self._is_known = bool(self.options.writer)
        self._query = self.options.writer or f"job-{uuid4().hex}"
        self._batch = self.options.version if self._is_known else _ONLY_BATCH

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        # Two-phase only where somebody will come back: what a dead job leaves open must time out.
        return self._write(self._query, iterator, is_two_phase=self._is_known, batch=self._batch)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        mine = _transactions(_told(messages))
        if self.options.is_exactly_once and (mine or self._is_known):
            with suppress(BatchOutdated):  # As with Delta's options of these names, a version that is not new is done.
                self._commit(self._query, self._batch, mine)
            self._forget()

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if self.options.is_exactly_once:
            self._abort(self._query, self._batch, messages)
            self._forget()

    def _forget(self) -> None:
        """Leave nothing of a job that nobody will ask for again."""
        if self._is_known:
            return
        here = sink_process(self.options)
        with suppress(Exception):  # All is done; the decision that stays is only a waste of room.
            here.run(here.driver(self._query).forget())
        here.dismiss(self._query)


class StreamWriter(_Sink, DataSourceStreamArrowWriter):
    """Writes the batches of a streaming query."""

    #: Whether a task may commit a batch that it is all of. One that Spark gave up may do so as long as it lives, which
    #: whoever runs the query again finds and follows.
    may_settle = True

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        context = TaskContext.get()
        query_id = context.getLocalProperty(_QUERY_ID) if context is not None else None
        query = self.named(query_id or "")
        assert query, "a task of a streaming query knows its query"
        return self._write(query, iterator, is_two_phase=True)

    def _write(
        self, query: str, rows: Iterator[pa.RecordBatch], *, is_two_phase: bool, batch: int | None = None
    ) -> Written:
        """As any task does, unless it is told that it is the whole batch, and has few rows: then it commits that."""
        line = self._asked(query)
        if line is not None:
            held, rows = in_hand(rows)
            fence = held_of(line.note(), _attempt())
            # Where the batch before was a lone task's, this is likely one too, and hears it while its rows are written.
            if held is not None and (fence is not None or line.is_lone()):
                with suppress(NotAlone):
                    return self._settle(query, held, line, fence)
        return super()._write(query, rows, is_two_phase=is_two_phase, batch=batch)

    def _asked(self, query: str) -> DeskLine | None:
        """Where it was asked whether this task is alone; None where it is not, or nobody could tell."""
        context = TaskContext.get()
        if context is None or context.partitionId() or not (self.may_settle and self.options.is_exactly_once):
            return None
        address = context.getLocalProperty(PROPERTY)
        if not address:
            return None
        line = desk_line(address)
        line.ask(context.stageId(), query)
        return line

    def _settle(self, query: str, held: list[pa.RecordBatch], line: DeskLine, fence: Held | None) -> Written:
        """Commit the batch, under the fence of the one before if that was left here, and leave it for the next."""
        here, chunk = sink_process(self.options), None
        if any(batch.num_rows for batch in held):
            chunk = self.layout.chunk(pa.Table.from_batches(held), has_topic=bool(self.options.topic))
            if not can_go_with_decision(self.options, chunk):
                raise NotAlone
        driver = here.driver(query)
        if fence is not None:
            driver.resume(fence)
        number, first = _micro_batch()
        done = here.run(LoneTask(here, self.options, chunk, first, line.is_lone).commit(query, number))
        if released := driver.released():
            line.leave(query, note_of(released))
        return Written(query, *done)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        told = _told(messages)
        if told and told[0].is_settled:
            assert len(messages) == 1, "it was alone"
        elif self.options.is_exactly_once and told:
            self._commit(told[0].query, batchId, _transactions(told))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        told = _told(messages)
        query_id = query_id_of(self.options.checkpoint)
        query = told[0].query if told else self.named(query_id) if query_id else ""
        if self.options.is_exactly_once and query:
            self._abort(query, batchId, messages)

    def named(self, query_id: str) -> str:
        """Who writes, where Spark gave the query this id."""
        return query_id
