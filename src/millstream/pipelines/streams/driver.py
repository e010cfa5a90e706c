"""Pipelines in users' own tests: the very same pipeline on Spark, fed from memory, one micro-batch for each step."""

import base64
import csv
import io
import json
import os
import shutil
import struct
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from millstream.pipelines.streams.cluster import Cluster, standing_in
from millstream.pipelines.streams.errors import StreamsError
from millstream.pipelines.streams.formats import Format
from millstream.pipelines.streams.formats.python import PythonFormat
from millstream.pipelines.streams.stream import OFFSET, Stream
from millstream.pipelines.streams.table import Table
from millstream.pipelines.streams.topic import Topic

_RAW = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int, "
    "headers array<struct<key:string,value:binary>>"
)
#: Tests are small, so that anything more costs time and gives none: neither tasks nor code compiled for a few rows.
_CONF = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_FIRST_STEP_S = 1_000_000_000
#: Batches beyond the steps: the first step, and those that watermarks are worth. With timers that follow the clock
#: Spark would go on for ever.
_BATCHES_MORE = 4
_LOOK_S = 1

Moment = datetime | str | float


class TestDriver(Cluster):
    """``with TestDriver(spark) as driver``: every topic used within is held here, whatever cluster it names.

    ``send`` records, ``step`` where a micro-batch shall end, then ask for a stream's ``rows``, or start the pipeline by
    its own ``to`` and ask for a topic's ``records``. The same input gives the same output.
    """

    __test__ = False  # Not a class of tests, whatever pytest makes of its name.

    def __init__(self, spark: SparkSession | None = None) -> None:
        self._folder = tempfile.mkdtemp(prefix="millstream-driver-")
        super().__init__(checkpoints=f"{self._folder}/checkpoints")
        self._given = spark
        #: By topic, by step: the lines of a file.
        self._topics: dict[str, list[list[dict[str, Any]]]] = {}
        #: By topic: how many of its files are there.
        self._written: dict[str, int] = {}
        self._step = 0
        self._sealed = False
        self._runs = 0
        self._newest = 0.0
        self._standing: AbstractContextManager[None] | None = None
        self._before: dict[str, str | None] = {}

    def __enter__(self) -> "TestDriver":
        self._before = {name: self.spark.conf.get(name, None) for name in _CONF}
        for name, value in _CONF.items():
            self.spark.conf.set(name, value)
        self._standing = standing_in(self)
        self._standing.__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        assert self._standing is not None
        self._standing.__exit__(None, None, None)
        for name, value in self._before.items():
            if value is None:
                self.spark.conf.unset(name)
            else:
                self.spark.conf.set(name, value)
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def spark(self) -> SparkSession:
        """The session given, or the one of this process."""
        return self._given or super().spark

    def send(self, topic: Topic, value: Any = None, key: Any = None, at: Moment = 0.0) -> None:
        """A record into the current step. Fields as a dict, or bytes as they are; no value deletes the key.

        ``key`` may be the bare value where the key is one column. ``at`` is the record's timestamp: a datetime, ISO
        text (UTC unless it says otherwise) or seconds since 1970.
        """
        if self._sealed:
            self._step, self._sealed = self._step + 1, False
        seconds = _seconds(at)
        self._newest = max(self._newest, seconds)
        key_bytes = _encoded(topic.key_type, key) if topic.key_type else _encoded(None, key)
        self._append(topic.name, self._step, key_bytes, _encoded(topic.value_type, value), seconds)

    def step(self) -> None:
        """End a micro-batch here. A run ends one too."""
        self._step, self._sealed = self._step + 1, False

    def rows(self, result: Stream | Table | DataFrame) -> list[Row]:
        """Everything that a stream gives for all that was sent."""
        return [row for rows in self.steps(result) for row in rows]

    def steps(self, result: Stream | Table | DataFrame) -> list[list[Row]]:
        """The same, a list for each step, and one more for what the last watermark let go."""
        stream = result.changes() if isinstance(result, Table) else result
        df, mode = (stream.df, stream.mode) if isinstance(stream, Stream) else (stream, "append")
        batches: dict[int, list[Row]] = {}
        self._runs += 1

        def collect(batch: DataFrame, number: int) -> None:
            batches[number] = batch.collect()

        self._run(df, f"run-{self._runs}", mode, collect)
        return [batches.get(number, []) for number in range(self._step + 2)]

    def records(self, topic: Topic) -> list[Row]:
        """What a topic holds, in order, with ``_deleted`` for records without a value."""
        return topic.typed(self.read(topic.name, {})).orderBy(OFFSET).drop(OFFSET).collect()

    def read_stream(self, topic: str, options: Mapping[str, str]) -> DataFrame:
        """One file for each step."""
        reader = self.spark.readStream.schema(_RAW).option("maxFilesPerTrigger", 1)
        return reader.json(self._place(topic))

    def read(self, topic: str, options: Mapping[str, str]) -> DataFrame:
        """All files that are there now."""
        self._flush()
        return self.spark.read.schema(_RAW).json(self._place(topic))

    def write(self, records: DataFrame, name: str, mode: str, trigger: Mapping[str, Any]) -> StreamingQuery:
        """Run to the end of what was sent, and put what comes out into its topics, a step for each batch."""

        def store(batch: DataFrame, number: int) -> None:
            rows = batch.collect()
            for topic in sorted({row["topic"] for row in rows}):
                step = max(len(self._topics.get(topic, [])), self._written.get(topic, 0))
                for row in rows:
                    if row["topic"] == topic:
                        headers = row["headers"] if "headers" in batch.columns else None
                        self._append(topic, step, row["key"], row["value"], self._newest, headers)

        return self._run(records, name, mode, store)

    def _run(self, df: DataFrame, name: str, mode: str, each: Callable[[DataFrame, int], None]) -> StreamingQuery:
        self._flush()
        batches: list[int] = []

        def take(batch: DataFrame, number: int) -> None:
            each(batch, number)
            batches.append(number)

        writer = df.writeStream.queryName(name).outputMode(mode).foreachBatch(take)
        query = writer.option("checkpointLocation", f"{self.checkpoints}/{name}").trigger(availableNow=True).start()
        while not query.awaitTermination(_LOOK_S):
            if len(batches) >= self._step + _BATCHES_MORE:
                query.stop()
        return query

    def _append(
        self, topic: str, step: int, key: bytes | None, value: bytes | None, seconds: float, headers: Any = None
    ) -> None:
        self._place(topic)
        steps = self._topics[topic]
        step = max(step, self._written.get(topic, 0))  # A file that Spark may have read is never changed.
        while len(steps) <= step:
            steps.append([])
        steps[step].append(
            {
                "key": _text(key),
                "value": _text(value),
                "topic": topic,
                "partition": 0,
                "offset": sum(map(len, steps)),
                "timestamp": datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds"),
                "timestampType": 0,
                "headers": headers and [{"key": one["key"], "value": _text(one["value"])} for one in headers],
            }
        )

    def _place(self, topic: str) -> str:
        self._topics.setdefault(topic, [])
        place = f"{self._folder}/topics/{topic}"
        os.makedirs(place, exist_ok=True)
        return place

    def _flush(self) -> None:
        """A file for each step of each topic, empty ones too, so that all go in step. A file once there stays."""
        for topic, steps in self._topics.items():
            written, count = self._written.get(topic, 0), max(self._step + 1, len(steps))
            for step in range(written, count):
                file = f"{self._place(topic)}/{step:08}.json"
                lines = steps[step] if step < len(steps) else []
                with open(file, "w") as out:
                    out.writelines(json.dumps(line) + "\n" for line in lines)
                # Spark takes files in the order of their times.
                os.utime(file, (_FIRST_STEP_S + step, _FIRST_STEP_S + step))
            self._written[topic] = max(written, count)
        self._sealed = True


def _seconds(at: Moment) -> float:
    if isinstance(at, str):
        at = datetime.fromisoformat(at)
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return at.timestamp() if isinstance(at, datetime) else float(at)


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _plain(value: Any) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{value!r} has no place in JSON")


def _json(kind: Format, fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, default=_plain).encode()


def _csv(kind: Format, fields: Mapping[str, Any]) -> bytes:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow([fields.get(name) for name in kind.schema.names])
    return line.getvalue().encode()


def _raw(kind: Format, fields: Mapping[str, Any]) -> bytes:
    (value,) = fields.values()
    codes = {"int": ">i", "bigint": ">q"}
    code = codes.get(kind.schema.fields[0].dataType.simpleString())
    if code:
        return struct.pack(code, value)
    return value.encode() if isinstance(value, str) else bytes(value)


#: By the name of its class: how a format is written without Spark, for which a test need not wait.
_WRITERS: dict[str, Callable[[Format, Mapping[str, Any]], bytes]] = {"Json": _json, "Csv": _csv, "Raw": _raw}


def _encoded(kind: Format | None, value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if kind is None:
        if not isinstance(value, str):
            raise StreamsError(f"send: {value!r}: a topic without a key's type takes bytes or text")
        return value.encode()
    fields = value if isinstance(value, Mapping) else {kind.schema.names[0]: value}
    if isinstance(kind, PythonFormat):
        return kind.writer()(dict(fields))
    return _WRITERS[type(kind).__name__](kind, fields)
