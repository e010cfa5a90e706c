"""A source as Spark reads it, and the topics as it writes them: records and offsets in the same transactions."""

import json
import os
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from itertools import chain as chained
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from millstream.model.clock import Clock, SystemClock
from millstream.pipelines.connect.base import Offset, Partition, Source
from millstream.pipelines.connect.chain import SourceChain
from millstream.pipelines.connect.errors import Misconfigured
from millstream.pipelines.connect.job import Job
from millstream.pipelines.connect.letters import Raw
from millstream.pipelines.connect.places import Document, document_of, key_of, text_of, value_of
from millstream.pipelines.connect.settings import BATCH_MAX_ROWS, POLL_INTERVAL_MS
from millstream.pipelines.connect.spark.assembly import JOB_OPTION, query_of, source_of, surroundings
from millstream.pipelines.connect.spark.creation import ensure_topics, rules_of
from millstream.pipelines.connect.spark.gate import Gate
from millstream.pipelines.connect.spark.rows import COLUMNS, chunks
from millstream.pipelines.spark.sink.process import sink_process
from millstream.pipelines.spark.sink.writers import StreamWriter, Written
from millstream.pipelines.spark.workers import spare_collections

#: How many records a batch takes of a partition, and how long one rests that had none; configs may say otherwise.
LIMIT_NAME, LIMIT = BATCH_MAX_ROWS.name, BATCH_MAX_ROWS.default
POLL_NAME, POLL_MS = POLL_INTERVAL_MS.name, POLL_INTERVAL_MS.default
#: The topics that records went into, in the connector's folder.
TOPICS_FILE = "topics.json"
_QUERY_ID = "sql.streaming.queryId"


class ConnectSource(DataSource):
    """``format("millstream-connect-source")``: what a source brings, as bytes; and the topics it goes into."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._given = dict(options)
        self._job = Job.from_line(self._given.pop(JOB_OPTION).encode())

    @classmethod
    def name(cls) -> str:
        return "millstream-connect-source"

    def schema(self) -> StructType:
        return COLUMNS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return Reader(self._job)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return Writer(self._job, self._given, schema)


@dataclass(frozen=True)
class Range:
    """What is to be read of a partition."""

    partition: Partition
    start: Offset | None
    end: Offset


class Task(InputPartition):
    """Ranges that one task reads, one after the other."""

    def __init__(self, number: int, ranges: Sequence[Range]) -> None:
        self.number = number
        self.ranges = list(ranges)

    def __repr__(self) -> str:
        return f"task {self.number}: {self.ranges}"


class Reader(DataSourceStreamReader):
    """Plans what tasks read, and reads it."""

    def __init__(self, job: Job, clock: Clock | None = None) -> None:
        self._job = job
        self._gate = Gate(job.folder)
        self._clock = clock or SystemClock()
        self._limit = _number(job, LIMIT_NAME, LIMIT)
        self._poll_s = _number(job, POLL_NAME, POLL_MS) / 1000
        self._source: Source | None = None
        self._rests_until_s = 0.0
        self._told: Document = {}

    def initialOffset(self) -> Document:
        return document_of(self._job.offsets or ())

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def latestOffset(self, start: Document, limit: ReadLimit) -> Document:
        """How far the next batch goes; no further than ``start`` when there is nothing to read yet."""
        now_s = self._clock.monotonic_s()
        if not self._gate.may_plan() or now_s < self._rests_until_s:
            return start
        if self._source is None:
            self._source = source_of(self._job)
        self._tell(self._source, start)
        found = self._reached(self._source, start)
        if found == start:
            self._rests_until_s = now_s + self._poll_s
        return found

    def _reached(self, source: Source, start: Document) -> Document:
        reached = dict(start)
        for partition in source.partitions():
            text = text_of(partition)
            end = source.latest(partition, start.get(text), self._limit)
            if end is not None:
                reached[text] = end
        return dict(sorted(reached.items()))

    def _tell(self, source: Source, start: Document) -> None:
        """Where a batch may start, all before it was committed."""
        for text, offset in start.items():
            if self._told.get(text) != offset:
                source.committed(json.loads(text), offset)
                self._told[text] = offset

    def partitions(self, start: Document, end: Document) -> Sequence[InputPartition]:
        ranges = [
            Range(json.loads(text), start.get(text), offset)
            for text, offset in end.items()
            if start.get(text) != offset
        ]
        tasks = min(self._job.tasks_max, len(ranges))
        return [Task(number, ranges[number::tasks]) for number in range(tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark makes an empty task of its own where there is none.
        return self._read(partition) if isinstance(partition, Task) else iter(())

    def _read(self, task: Task) -> Iterator[pa.RecordBatch]:
        spare_collections()
        source = source_of(self._job)
        try:
            chain = SourceChain(self._job.config, surroundings(), task.number)
            yield from chunks(chained.from_iterable(self._range(source, chain, each) for each in task.ranges))
        finally:
            source.close()

    def _range(self, source: Source, chain: SourceChain, each: Range) -> Iterator[Raw]:
        yield from chain.encode_all(source.read(each.partition, each.start, each.end))
        if self._job.offsets_topic:
            yield Raw(self._job.offsets_topic, key_of(self._job.name, each.partition), value_of(each.end))

    def stop(self) -> None:
        if self._source is not None:
            self._source.close()

    def __getstate__(self) -> dict[str, Any]:
        """Workers get the job and no connection."""
        return {**self.__dict__, "_source": None}


def _number(job: Job, name: str, default: int) -> int:
    text = job.config.get(name, str(default))
    try:
        return int(text)
    except ValueError:
        raise Misconfigured(f"{name}={text}: must be a whole number") from None


@dataclass
class Noted(Written):
    """What a task wrote, and where."""

    topics: frozenset[str] = frozenset()


class Writer(StreamWriter):
    """The exactly-once sink of topics, under the connector's own name; it notes which topics there are."""

    #: Once a connector is settled nothing of it may come, for its offsets may be others then.
    may_settle = False

    def __init__(self, job: Job, options: MutableMapping[str, str], schema: StructType) -> None:
        super().__init__({**options, "kafka.bootstrap.servers": job.bootstrap}, schema)
        self._job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Noted:
        context = TaskContext.get()
        assert context is not None
        query = self.named(context.getLocalProperty(_QUERY_ID) or "")
        topics: set[str] = set()
        written = self._write(query, self._noting(iterator, topics), is_two_phase=True)
        return Noted(**vars(written), topics=frozenset(topics - {self._job.offsets_topic}))

    def named(self, query_id: str) -> str:
        return query_of(self._job, query_id)

    def _noting(self, batches: Iterator[pa.RecordBatch], topics: set[str]) -> Iterator[pa.RecordBatch]:
        """The same batches, their topics noted, and made where the config says how."""
        rules = rules_of(self._job.config)
        for batch in batches:
            new = set(pc.unique(batch.column("topic")).to_pylist()) - topics
            if rules and new:
                ensure_topics(sink_process(self.options), rules, sorted(new - {self._job.offsets_topic}))
            topics |= new
            yield batch

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        super().commit(messages, batchId)
        _add_topics(self._job, {name for told in messages if isinstance(told, Noted) for name in told.topics})


def topics_of(job: Job) -> list[str]:
    """The topics that this generation's records went into so far."""
    try:
        with open(os.path.join(job.folder, TOPICS_FILE), encoding="utf-8") as file:
            return list(json.load(file))
    except FileNotFoundError:
        return []


def _add_topics(job: Job, topics: set[str]) -> None:
    known = topics_of(job)
    if topics <= set(known):
        return
    path = os.path.join(job.folder, TOPICS_FILE)
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(sorted(topics.union(known)), file)
    os.replace(f"{path}.new", path)
