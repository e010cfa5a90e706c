"""The process that runs a pipeline: Spark's driver, watched by a supervisor at the other end of two pipes.

python -m millstream.pipelines.running.process JOB REPORTS, where JOB is JSON and REPORTS a descriptor to tell on. It
ends in good order, behind the micro-batch under way, when its standard input does: because the supervisor says so, or
because there is none any more.
"""

import json
import logging
import os
import select
import sys
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from millstream.pipelines.running import declared, script
from millstream.pipelines.running.failures import diagnose
from millstream.pipelines.running.job import BOOTSTRAP_VARIABLE, CHECKPOINTS_VARIABLE, Job, definition_of
from millstream.pipelines.running.reports import Failed, Report, Started, batch_of, encode
from millstream.pipelines.spark.session import spark_session

#: How often the queries are looked at.
LOOK_S = 0.1
#: The gap between two batches may be short.
STOPPING_LOOK_S = 0.01
CONNECT = "sc://"


class Teller(StreamingQueryListener):
    """Tells of each micro-batch as it ends, and remembers how many each query has ended."""

    def __init__(self, tell: Callable[[Report], None]) -> None:
        self._tell = tell
        self.ended: dict[str, int] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Told by whoever started it."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = json.loads(event.progress.json)
        self.ended[progress["id"]] = self.ended.get(progress["id"], 0) + 1
        self._tell(batch_of(progress))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Nothing was done."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Seen by whoever watches it."""


def main() -> int:
    """Run the job; 0 when it is done or was told to stop."""
    job, reports = Job.from_text(sys.argv[1]), int(sys.argv[2])
    # PySpark logs, with the whole plan, what is told in a line.
    logging.getLogger("SQLQueryContextLogger").disabled = True

    def tell(report: Report) -> None:
        os.write(reports, encode(report))  # Short enough to be written at once, whichever thread tells.

    is_building = True
    try:
        teller = Teller(tell)
        spark = _session(job)
        spark.streams.addListener(teller)
        queries = [declared.start(definition_of(job), job, spark)] if job.is_declared else script.start(job.file, spark)
        is_building = False
        tell(Started(tuple(query.name for query in queries)))
        watch(queries, teller, is_told_to_stop)
        spark.streams.removeListener(teller)
        spark.stop()
    except Exception as error:
        diagnosis = diagnose(error, file=job.file, checkpoint=job.checkpoint, is_building=is_building)
        tell(Failed(diagnosis.message[:2000], diagnosis.is_final))
        return 1
    return 0


def _session(job: Job) -> SparkSession:
    """The session, with the brokers and checkpoints that the file's own queries find by default."""
    os.environ[BOOTSTRAP_VARIABLE], os.environ[CHECKPOINTS_VARIABLE] = job.bootstrap, job.checkpoint
    spark = spark_session(f"millstream pipeline {job.name}", job.master, **{**defaults(job), **job.conf})
    spark.conf.set("spark.sql.streaming.checkpointLocation", job.checkpoint)
    return spark


def defaults(job: Job) -> dict[str, str]:
    """Settings for a pipeline that runs by itself; on one machine, as many state stores as it has processors."""
    found = {"spark.ui.enabled": "false"}
    if job.is_local:
        found["spark.sql.shuffle.partitions"] = str(max(2, os.cpu_count() or 2))
    return {} if job.master.startswith(CONNECT) else found


def is_told_to_stop() -> bool:
    """Whether standard input has ended; a little is waited for it."""
    ready, _, _ = select.select([sys.stdin], [], [], LOOK_S)
    return bool(ready) and not os.read(sys.stdin.fileno(), 1)


def _rest() -> None:
    select.select([], [], [], STOPPING_LOOK_S)


def watch(queries: list[Any], teller: Teller, is_told_to_stop: Callable[[], bool]) -> None:
    """Return when all queries have ended; when one failed or we are told to stop, the others end behind their batch."""
    marks: dict[str, int] | None = None
    failure: BaseException | None = None
    while active := [query for query in queries if query.isActive]:
        failure = failure or _failure(queries)
        if marks is None and (is_told_to_stop() or failure):
            marks = {query.id: teller.ended.get(query.id, 0) for query in active}
        if marks is not None:
            for query in active:
                if _is_between_batches(query, marks[query.id], teller):
                    query.stop()
            _rest()
    failure = failure or _failure(queries)
    if failure:
        raise failure


def _failure(queries: list[Any]) -> BaseException | None:
    return next((error for query in queries if not query.isActive and (error := query.exception())), None)


def _is_between_batches(query: Any, mark: int, teller: Teller) -> bool:
    """Whether the batch that was under way has ended, or there was none."""
    status = query.status
    return teller.ended.get(query.id, 0) > mark or not (status["isDataAvailable"] and status["isTriggerActive"])


if __name__ == "__main__":
    sys.exit(main())
