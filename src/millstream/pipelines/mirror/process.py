"""The process that runs one flow: Spark's driver and the chores beside it, watched by a supervisor.

python -m millstream.pipelines.mirror.process JOB REPORTS, as ``pipelines/running/process.py`` has it; the job's name is
the flow's, and its file the mirror's.
"""

import dataclasses
import json
import logging
import os
import sys
from collections.abc import Callable

from pyspark.sql.streaming.listener import QueryProgressEvent

from millstream.model.clock import SystemClock
from millstream.pipelines.mirror.batches import CONF, Batches, is_new, start, work_of
from millstream.pipelines.mirror.beside import Beside
from millstream.pipelines.mirror.definition import Flow, read_mirror
from millstream.pipelines.mirror.upkeep import Upkeep
from millstream.pipelines.running.failures import PipelineError, diagnose
from millstream.pipelines.running.job import Job
from millstream.pipelines.running.process import Teller, is_told_to_stop, watch
from millstream.pipelines.running.reports import Failed, Report, Started, Unseen, batch_of, encode
from millstream.pipelines.spark.session import spark_session


class FlowTeller(Teller):
    """Tells of records, where Spark only knows of stretches."""

    def __init__(self, tell: Callable[[Report], None], batches: Batches) -> None:
        super().__init__(tell)
        self._report = tell
        self._batches = batches

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = json.loads(event.progress.json)
        self.ended[progress["id"]] = self.ended.get(progress["id"], 0) + 1
        report = batch_of(progress)
        records = self._batches.taken(report.number).records
        self._report(dataclasses.replace(report, rows_in=records, rows_out=records))


def main() -> int:
    """Run the flow; 0 when it was told to stop."""
    job, reports = Job.from_text(sys.argv[1]), int(sys.argv[2])
    logging.getLogger("SQLQueryContextLogger").disabled = True

    def tell(report: Report) -> None:
        os.write(reports, encode(report))

    def say(line: str) -> None:
        sys.stderr.write(f"{job.name}: {line}\n")

    try:
        flow = flow_of(job)
        upkeep = Upkeep(flow, SystemClock(), say, lambda: tell(Unseen(flow.name)))
        beside = Beside(upkeep)
        beside.ask(upkeep.prepare())  # Before Spark: a cluster that is away is no reason to start it.
        if is_new(job.checkpoint):
            beside.ask(upkeep.tell_of_others())
        batches = Batches(work_of(flow, job), beside, say)
        spark = spark_session(f"millstream mirror {flow.name}", job.master, **{**CONF, **job.conf})
        teller = FlowTeller(tell, batches)
        spark.streams.addListener(teller)
        query = start(flow, job, spark, batches)
        beside.start()
        tell(Started((flow.name,)))
        watch([query], teller, is_told_to_stop)
        beside.finish()
        spark.streams.removeListener(teller)
        spark.stop()
    except Exception as error:
        diagnosis = diagnose(error, file=job.file, checkpoint=job.checkpoint)
        tell(Failed(diagnosis.message[:2000], diagnosis.is_final))
        return 1
    return 0


def flow_of(job: Job) -> Flow:
    """The job's flow, as its file has it now."""
    for flow in read_mirror(job.file).flows:
        if flow.name == job.name:
            return flow
    raise PipelineError(f"{job.file}: {job.name} is not enabled any more")


if __name__ == "__main__":
    sys.exit(main())
