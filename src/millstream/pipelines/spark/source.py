"""``format("millstream")``: topics read and written as Spark's own Kafka source does, without a jar."""

import functools
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    Filter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from millstream.model.clock import Clock, SystemClock
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.pipelines.spark import planning
from millstream.pipelines.spark.ahead import Ahead, HandsOver
from millstream.pipelines.spark.cluster import ClusterOrigin
from millstream.pipelines.spark.filters import Bounds
from millstream.pipelines.spark.options import SourceOptions, batch_options, check_options, stream_options
from millstream.pipelines.spark.origin import Aborted, Origin, ending, narrowed, starting
from millstream.pipelines.spark.planning import DataLost, Offsets
from millstream.pipelines.spark.reading import read_from_brokers, read_together
from millstream.pipelines.spark.segments import DirectoryOrigin, read_from_segments
from millstream.pipelines.spark.task import Pack, Task
from millstream.pipelines.spark.workers import spare_collections

T = TypeVar("T")

_log = logging.getLogger(__name__)

#: How often partitions are looked for before they are taken for gone, as often as Spark's own source does.
_LOOKS = 3

COLUMNS = [
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
]
HEADERS = StructField(
    "headers", ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
)


class MillstreamDataSource(DataSource):
    """Topics of a Kafka cluster, ours or Apache's, as a table."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._given = dict(options)

    @classmethod
    def name(cls) -> str:
        return "millstream"

    def schema(self) -> StructType:
        return StructType([*COLUMNS, HEADERS] if check_options(self._given) else COLUMNS)

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(batch_options(self._given))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return StreamReader(stream_options(self._given))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from millstream.pipelines.spark.sink.writers import batch_writer

        return batch_writer(self._given, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from millstream.pipelines.spark.sink.writers import stream_writer

        return stream_writer(self._given, schema, overwrite)


def origin_of(options: SourceOptions) -> Origin:
    """Where the options say that records are."""
    return DirectoryOrigin(options) if options.path else ClusterOrigin(options)


class Anew(InputPartition):
    """Whatever a batch reads by the time that it is read."""

    def __init__(self, reader: "BatchReader") -> None:
        self.reader = reader


def read_task(task: InputPartition) -> Iterator[pa.RecordBatch]:
    """The records of a task; Spark makes an empty task of its own where there is none."""
    if isinstance(task, Anew):
        return itertools.chain.from_iterable(map(read_task, task.reader.planned()))
    spare_collections()
    if isinstance(task, Pack):
        if task.tasks[0].options.path:
            return itertools.chain.from_iterable(map(read_from_segments, task.tasks))
        return read_together(task.tasks)
    if not isinstance(task, Task):
        return iter(())
    return read_from_segments(task) if task.options.path else read_from_brokers(task)


def tasks_of(origin: Origin, starts: Offsets, stops: Offsets, options: SourceOptions) -> list[Task]:
    """A task for each partition with something to read, or more where the options want more."""
    pieces = planning.split(planning.ranges(starts, stops), options.tasks_min, options.task_records_max)
    aborted = origin.aborted({piece.partition for piece in pieces})
    return [Task(piece, options, _overlapping(aborted.get(piece.partition, ()), piece)) for piece in pieces]


def packs_of(tasks: Sequence[Task], options: SourceOptions) -> Sequence[InputPartition]:
    """The tasks of a micro-batch, small ones put together; as they are where the options say how many there should be.

    Starting a task takes longer than reading a few records, and a stream that keeps up reads a few at a time.
    """
    if not options.may_pack:
        return tasks
    by_range = {task.range: task for task in tasks}
    packs = planning.packed(by_range, planning.PACK_RECORDS)
    return [by_range[pack[0]] if len(pack) == 1 else Pack([by_range[piece] for piece in pack]) for pack in packs]


def _overlapping(aborted: Sequence[Aborted], piece: planning.Range) -> list[Aborted]:
    return [each for each in aborted if each.first_offset < piece.stop and each.last_offset >= piece.start]


class _Pushing:
    """``pushFilters`` for whoever calls it.

    Spark refuses a reader that has one in a session where pushdown is off, which is Spark's default. It looks at the
    method's ``__func__`` for that and is shown its own there, so that such a session reads all records instead.
    """

    def __get__(self, reader: "BatchReader", owner: type | None = None) -> Callable[[list[Filter]], Iterable[Filter]]:
        push = functools.partial(reader.push)
        push.__func__ = DataSourceReader.pushFilters  # type: ignore[attr-defined]
        return push


class BatchReader(DataSourceReader):
    """A table as it is when the query is planned."""

    pushFilters = _Pushing()  # type: ignore[assignment]  # noqa: N815

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._bounds = Bounds()

    def push(self, filters: list[Filter]) -> list[Filter]:
        """Read no more than these filters ask for; those that Spark must still apply come back."""
        return self._bounds.take(filters)

    def partitions(self) -> Sequence[InputPartition]:
        return [Anew(self)] if self._options.reads_anew else self.planned()

    def planned(self) -> list[Task]:
        """What there is to read now."""
        options = self._options
        origin = origin_of(options)
        try:
            partitions = origin.partitions(options.selection, must_exist=True)
            starts, stops = starting(origin, options, partitions), ending(origin, options, partitions)
            starts, stops = narrowed(origin, self._bounds, starts, stops, options.disorder_max_ms)
            return tasks_of(origin, starts, stops, options)
        finally:
            origin.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(partition)


class StreamReader(HandsOver, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A table that grows. Offsets are kept as Spark's Kafka source keeps them."""

    def __init__(self, options: SourceOptions, clock: Clock | None = None) -> None:
        self._options = options
        self._clock = clock or SystemClock()
        self._origin: Origin | None = None
        #: Up to where a run that takes what is available goes; None for one that goes on.
        self._target: Offsets | None = None
        self._seen: Offsets = {}
        self._last_trigger_s: float | None = None
        #: Where a new stream starts, as Spark was told; it asks again when the first micro-batch runs.
        self._initial: dict[str, Any] | None = None
        #: Whether the next micro-batch may be the first of a new stream.
        self._is_new = False
        self._ahead = Ahead()

    @property
    def _here(self) -> Origin:
        if self._origin is None:
            self._origin = origin_of(self._options)
        return self._origin

    def stop(self) -> None:
        self._ahead.close()
        if self._origin is not None:
            self._origin.close()

    def initialOffset(self) -> dict[str, Any]:
        if self._initial is None:
            partitions = self._here.partitions(self._options.selection, must_exist=True)
            self._initial = planning.to_document(starting(self._here, self._options, partitions))
            self._is_new = True
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:
        options = self._options
        if options.trigger_offsets_max:
            return ReadMaxRows(options.trigger_offsets_max)
        if options.trigger_offsets_min:
            return ReadMinRows(options.trigger_offsets_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._found(lambda: self._here.latest(self._there()))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return planning.to_document(self._seen) if self._seen else None

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """How far the next micro-batch goes; no further than ``start`` when there is nothing to read yet.

        The first of a stream that starts at the latest goes nowhere: with its end Spark writes down where the stream
        starts. Were it to read anything, a driver that is killed meanwhile would start it at a latest that is later.
        """
        is_new, self._is_new = self._is_new, False
        if is_new and start == self._initial and self._options.may_start_at_latest:
            return start
        starts = planning.from_document(start)
        earliest, latest = self._bounds(starts)
        self._seen = latest
        starts = self._checked(starts, earliest, latest)
        if not isinstance(limit, ReadAllAvailable):
            if self._is_early(sum(latest[tp] - starts[tp] for tp in latest)):
                return start
            if self._options.trigger_offsets_max:
                latest = planning.admit(starts, latest, self._options.trigger_offsets_max)
        self._look_ahead(starts, latest)
        return planning.to_document(latest)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        starts, stops = planning.from_document(start), planning.from_document(end)
        new = stops.keys() - starts.keys()
        moved = {tp for tp in stops.keys() & starts.keys() if starts[tp] > stops[tp]}
        if self._is_new and start == self._initial and self._options.may_start_at_latest:
            moved.clear()  # It was planned before a restart, and the latest is a later one since.
        if new or moved:
            # A partition that began while the query ran is read from its first record, so is one that began anew. When
            # the batch was planned nothing of them was lost, or that was taken; by now something may be.
            earliest = self._found(lambda: self._here.earliest((new | moved).intersection(self._there())))
            known = {tp: starts.get(tp, 0) for tp in moved | (new - earliest.keys())}
            self._report(planning.losses(known, earliest, {tp: stops[tp] for tp in earliest}))
            starts |= earliest
        tasks = tasks_of(self._here, starts, stops, self._options)
        packs = packs_of(tasks, self._options)
        self.in_hand = self._ahead.taken(tasks) if len(packs) == 1 else None
        return packs

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_task(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark says so of the micro-batch before, once it has written down where this one goes."""
        self._ahead.begin()

    def _there(self) -> list[TopicPartition]:
        return self._here.partitions(self._options.selection, must_exist=False)

    def _found(self, ask: Callable[[], T], looks: int = _LOOKS) -> T:
        """What ``ask`` finds of the partitions there are; it is asked again when one of them was deleted meanwhile."""
        try:
            return ask()
        except ProtocolError as refusal:
            if refusal.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or looks == 1:
                raise
        return self._found(ask, looks - 1)

    def _bounds(self, starts: Offsets) -> tuple[Offsets, Offsets]:
        """Where each partition begins and how far it can be read.

        What seems to be gone is looked for again, or what comes back would be read again from its first record: a
        broker that has just started may not know yet what there is.
        """
        for look in range(_LOOKS):
            if look:
                self._here.rest()
                if self._target is not None:
                    self.prepareForTriggerAvailableNow()
            earliest, latest = self._found(self._bounds_now)
            if all(tp in latest and start <= latest[tp] for tp, start in starts.items()):
                break
        return earliest, latest

    def _bounds_now(self) -> tuple[Offsets, Offsets]:
        if self._target is None:
            return self._here.bounds(self._options.selection)
        latest = {tp: self._target[tp] for tp in self._there() if tp in self._target}
        return self._here.earliest(latest), latest

    def _checked(self, starts: Offsets, earliest: Offsets, latest: Offsets) -> Offsets:
        """Where to go on in every partition there is; DataLost when that is not where reading stopped."""
        self._report(planning.losses(starts, earliest, latest))
        return planning.resumed(starts, earliest, latest)

    def _look_ahead(self, starts: Offsets, stops: Offsets) -> None:
        """Let a micro-batch that would be one small task be read by the time that it is planned."""
        if self._options.may_pack and not self._options.path:
            tasks = tasks_of(self._here, starts, stops, self._options)
            if sum(len(task.range) for task in tasks) <= planning.PACK_RECORDS:
                self._ahead.plan(tasks)

    def _report(self, losses: Iterable[str]) -> None:
        for what in losses:
            if self._options.fails_on_data_loss:
                raise DataLost(what)
            _log.warning("data was lost: %s", what)

    def _is_early(self, ready: int) -> bool:
        """Whether a micro-batch should wait for more records; never for the first, nor where no more will come."""
        now_s = self._clock.monotonic_s()
        if self._options.trigger_offsets_min and self._target is None and self._last_trigger_s is not None:
            waited_ms = (now_s - self._last_trigger_s) * 1000
            if ready < self._options.trigger_offsets_min and waited_ms < self._options.trigger_delay_max_ms:
                return True
        self._last_trigger_s = now_s
        return False

    def __getstate__(self) -> dict[str, Any]:
        """Workers get the options and no connection."""
        return {**self.__dict__, "_origin": None, "in_hand": None}
