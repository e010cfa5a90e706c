"""The process of one connector: Spark's driver with one query, for whoever started it (``job``, ``reports``)."""

import json
import logging
import os
import queue
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)
from pyspark.sql.streaming.query import StreamingQuery

from millstream.model.clock import SystemClock
from millstream.pipelines import running
from millstream.pipelines.connect.base import Sink
from millstream.pipelines.connect.errors import ConnectError, Misconfigured
from millstream.pipelines.connect.job import Job
from millstream.pipelines.connect.leash import Stops
from millstream.pipelines.connect.options import Config
from millstream.pipelines.connect.places import document_of
from millstream.pipelines.connect.providers import Providers, without
from millstream.pipelines.connect.reports import Failed, Report, encode
from millstream.pipelines.connect.spark import checkpoint, queries
from millstream.pipelines.connect.spark.assembly import class_of, config_of, source_of
from millstream.pipelines.connect.spark.creation import rules_of
from millstream.pipelines.connect.spark.following import Following, SinkFollowing, SourceFollowing
from millstream.pipelines.connect.spark.gate import Gate
from millstream.pipelines.connect.spark.letters import ensure_topic, options_of
from millstream.pipelines.connect.spark.sink import TASK_TRIES
from millstream.pipelines.running.failures import PipelineError, diagnose
from millstream.pipelines.running.lock import held
from millstream.pipelines.spark.planning import from_document
from millstream.pipelines.spark.session import spark_session
from millstream.pipelines.spark.sink.process import SinkProcess, sink_process

#: How often the query is looked at.
LOOK_S = 0.1
TRACE_CHARACTERS_MAX = 20_000
_TRACEBACK = "Traceback (most recent call last):"
#: Small, for there may be many of them on a machine; few files, and not too eager to look for more.
CONF = {
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.pollingDelay": "100ms",
    # On a machine that starts many of them at once, workers may take their time.
    "spark.python.authenticate.socketTimeout": "60s",
}


class Batches(StreamingQueryListener):
    """The batches that ended, as Spark tells of them from a thread of its own."""

    def __init__(self) -> None:
        self.ended: queue.SimpleQueue[str] = queue.SimpleQueue()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Told by whoever started it."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        self.ended.put(event.progress.json)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing was done."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Seen by whoever watches it."""


def main() -> int:
    """Run the job; 0 when it was told to stop, 1 when it could not go on and has said why."""
    place = int(sys.argv[-1])
    reports = os.fdopen(place, "wb")

    def tell(report: Report) -> None:
        reports.write(encode(report))
        reports.flush()

    # PySpark logs, with the whole plan, what is told in a line.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    stops = Stops(SystemClock())
    secrets: set[str] = set()
    try:
        told = Job.from_line(_line(sys.stdin.fileno()))
        # Not to the file, for another thread may be about to write to that.
        stops.listen(sys.stdin.fileno(), told.lease_s, lambda line: _say(place, Failed(line, "", is_final=False)))
        with _alone(told):
            job = _resolved(told, secrets)
            secrets |= _passwords(job)
            _run(job, tell, stops)
    except Exception as error:
        tell(failure_of(error, secrets))
        return 1
    return 0


def _say(place: int, report: Report) -> None:
    os.write(place, encode(report))


def _resolved(job: Job, secrets: set[str]) -> Job:
    """The job with what its config's variables stand for; that is added to what is not to be told."""
    found = Providers.of(job.providers, os.environ).resolved(job.config)
    secrets |= found.secrets
    if found.errors:
        raise Misconfigured("; ".join(f"{option}: {words}" for option, words in found.errors.items()))
    return replace(job, config=found.config, providers={})


def _run(job: Job, tell: Callable[[Report], None], stops: Stops) -> None:
    kind = class_of(job)
    config = config_of(job, kind)
    gate = Gate(job.folder)
    gate.open()
    here = sink_process(options_of(job))
    queries.settle(here, job)
    connector = _prepared_sink(job, config, here) if issubclass(kind, Sink) else _prepared_source(job)
    queries.forget_older(job)
    if stops.wait(0):
        return
    spark = _session(job)
    batches = Batches()
    spark.streams.addListener(batches)
    query = connector.start(spark)
    _watch(query, batches, connector.following, tell, stops, gate)
    spark.streams.removeListener(batches)
    spark.stop()


def _passwords(job: Job) -> set[str]:
    """What the config says that must never be shown."""
    return {job.config[it.name] for it in class_of(job).options if it.is_sensitive and it.name in job.config}


class Prepared:
    """A connector that has been checked, and can be started."""

    def __init__(self, following: Following, start: Callable[[SparkSession], StreamingQuery]) -> None:
        self.following = following
        self.start = start


def _prepared_source(job: Job) -> Prepared:
    rules_of(job.config)  # What is wrong there is to be told now, and not with the first record.
    source = source_of(job)
    try:
        partitions = len(source.partitions())
    finally:
        source.close()
    document = checkpoint.committed(job.folder)
    if document is None:
        document = document_of(job.offsets or ())
    return Prepared(SourceFollowing(job, document, partitions), lambda spark: queries.start_source(job, spark))


def _prepared_sink(job: Job, config: Config, here: SinkProcess) -> Prepared:
    ensure_topic(here, config)
    topics = queries.topic_options(job, config)
    document = checkpoint.committed(job.folder)
    begin = queries.beginning(here, job, topics)
    offsets = begin if document is None else from_document(document)
    topics = queries.starting_at(topics, begin)
    following = SinkFollowing(here, job, offsets, len(begin))
    return Prepared(following, lambda spark: queries.start_sink(job, spark, topics))


def _session(job: Job) -> SparkSession:
    os.environ.setdefault("LOG4J_CONFIGURATION_FILE", str(Path(running.__file__).with_name("log4j2.properties")))
    os.environ.setdefault("MILLSTREAM_SPARK_LOG_LEVEL", "fatal")
    conf = {**CONF, "spark.sql.warehouse.dir": os.path.join(job.folder, "warehouse"), **job.conf}
    return spark_session(
        f"millstream connector {job.name}", job.master or f"local[{job.tasks_max},{TASK_TRIES}]", **conf
    )


def _watch(
    query: StreamingQuery,
    batches: Batches,
    following: Following,
    tell: Callable[[Report], None],
    stops: Stops,
    gate: Gate,
) -> None:
    """Return when told to stop, behind the batch under way; raise what ends the query otherwise."""
    seen = -1

    def take(text: str) -> None:
        nonlocal seen
        progress = json.loads(text)
        if progress["batchId"] > seen:
            seen = progress["batchId"]
            for report in following.advance(progress):
                tell(report)

    for report in following.begin():
        tell(report)
    is_over = False
    while query.isActive and not gate.is_closed() and not is_over:
        if stops.wait(LOOK_S):
            gate.close()
            # Batches that have their times are waited for with nothing under way, and find the gate closed then.
            is_over = _is_waiting(query)
        while not batches.ended.empty():
            take(batches.ended.get())
    query.stop()
    # What ended last may not have been told yet.
    if query.lastProgress is not None:
        take(query.lastProgress.json)
    failure = query.exception()
    if failure is not None:
        raise failure


def _is_waiting(query: StreamingQuery) -> bool:
    """Whether it has ended its last batch, and waits for the time of the next."""
    status = query.status
    return not status["isTriggerActive"] and status["message"] == "Waiting for next trigger"


@contextmanager
def _alone(job: Job) -> Iterator[None]:
    """One process to a connector: another that is about to end is let end first."""
    try:
        with held(job.home):
            os.makedirs(job.folder, exist_ok=True)
            yield
    except PipelineError as error:
        raise ConnectError(f"another process of connector {job.name} is about to end: {error}") from None


def failure_of(error: BaseException, secrets: Iterable[str] = ()) -> Failed:
    """What to tell of an error; nothing of these."""
    diagnosis = diagnose(error)
    message, trace = without(secrets, diagnosis.message), without(secrets, trace_of(error))
    return Failed(message[:2000], trace[:TRACE_CHARACTERS_MAX], diagnosis.is_final)


def trace_of(error: BaseException) -> str:
    """Where it came from: in a worker, where Spark carries that."""
    text = str(error).split("\n=== Streaming Query ===")[0]
    _, carried, trace = text.partition(_TRACEBACK)
    return carried + trace if carried else "".join(traceback.format_exception(error))


def _line(place: int) -> bytes:
    """The first line, and nothing behind it: what is left there is waited for."""
    found = bytearray()
    while not found.endswith(b"\n"):
        piece = os.read(place, 1)
        if not piece:
            raise ConnectError("there is no job on standard input")
        found += piece
    return bytes(found)


if __name__ == "__main__":
    sys.exit(main())
