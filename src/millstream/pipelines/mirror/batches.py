"""A micro-batch of a flow, in Spark's driver: its tasks pass stretches on, and then all of it counts, or none."""

import dataclasses
import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from millstream.model.ids import TopicPartition
from millstream.pipelines.mirror import settings as s
from millstream.pipelines.mirror.beside import Beside
from millstream.pipelines.mirror.definition import Flow
from millstream.pipelines.mirror.passing import Done, Work, pass_rows
from millstream.pipelines.mirror.source import NAME, MirrorSource
from millstream.pipelines.mirror.translation import Run
from millstream.pipelines.running.failures import PipelineError
from millstream.pipelines.running.job import Job
from millstream.pipelines.spark.sink.process import sink_process
from millstream.pipelines.spark.sink.protocol import commit_plan

#: The file that names the query in the target's decisions; it goes with the checkpoint that it lies in.
IDENTITY = "mirror-id"
#: So many losses are told one by one; a topic may have had a thousand partitions.
LOSSES_TOLD_MAX = 10
#: Spark's driver only keeps the books here: a small heap, compiled as far as minutes are worth, and looks now and then.
CONF = {
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.ui.enabled": "false",
    "spark.sql.streaming.pollingDelay": "100ms",
}


class Passed(NamedTuple):
    """What a micro-batch was."""

    records: int
    size_bytes: int


class Batches:
    """``foreachBatch`` of a flow; what each batch was is kept until it is asked for."""

    def __init__(self, work: Work, beside: Beside, say: Callable[[str], None]) -> None:
        self._work = work
        self._beside = beside
        self._say = say
        self._is_first = True
        self.passed: dict[int, Passed] = {}

    def __call__(self, stretches: DataFrame, number: int) -> None:
        here = sink_process(self._work.options())
        driver = here.driver(self._work.query)
        done: list[Done] = []
        decided = here.run(driver.last_decision()).batch if self._is_first else number - 1
        if decided > number:
            raise PipelineError(
                f"the checkpoint is at micro-batch {number}, and {decided} was decided with it: it was brought back to "
                "an earlier time, and nobody can say what of its records is there already"
            )
        if decided < number:  # Else an earlier process wrote it.
            work = dataclasses.replace(self._work, batch=number)
            rows = stretches.mapInArrow(functools.partial(pass_rows, work), "done string").collect()
            done = [Done.from_text(row.done) for row in rows]
        self._is_first = False
        self._tell([loss for each in done for loss in each.losses])
        mine = [each.transaction for each in done if each.transaction is not None]
        here.run(driver.carry_out(commit_plan(number, mine)))
        decision = here.run(driver.last_decision())
        if set(decision.transactions) == set(mine):  # Else it was decided before, and written now in vain.
            runs: dict[TopicPartition, list[Run]] = {}
            for each in done:
                runs |= each.runs
            self._beside.learn(runs)
        self.passed[number] = Passed(sum(each.records for each in done), sum(each.size_bytes for each in done))

    def _tell(self, losses: Sequence[str]) -> None:
        """Now, not when the batch is over: nobody may be there to tell it then."""
        for loss in losses[:LOSSES_TOLD_MAX]:
            self._say(loss)
        if len(losses) > LOSSES_TOLD_MAX:
            self._say(f"and {len(losses) - LOSSES_TOLD_MAX} more partitions lost something")

    def taken(self, number: int) -> Passed:
        """What the batch was; asked for once."""
        return self.passed.pop(number, Passed(0, 0))


def is_new(folder: str) -> bool:
    """Whether nothing was passed on with this checkpoint yet."""
    return not os.path.exists(os.path.join(folder, IDENTITY))


def identity(folder: str) -> str:
    """Who this flow's checkpoint is, made up when it is new."""
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, IDENTITY)
    try:
        with open(path, encoding="ascii") as file:
            if found := file.read().strip():
                return found
    except FileNotFoundError:
        pass
    made = uuid4().hex
    with open(f"{path}.new", "w", encoding="ascii") as file:
        file.write(made)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.new", path)
    return made


def work_of(flow: Flow, job: Job) -> Work:
    """What the flow's tasks are told."""
    query = f"mirror-{flow.source}-{flow.target}-{identity(job.checkpoint)}"
    return Work(flow.source_bootstrap, flow.target_bootstrap, query, flow[s.TIMEOUT_MS])


def start(flow: Flow, job: Job, spark: SparkSession, batches: Batches) -> StreamingQuery:
    """Start the flow's query."""
    spark.dataSource.register(MirrorSource)
    options: Mapping[str, str] = {"flow": flow.to_text()}
    return (
        spark.readStream.format(NAME)
        .options(**options)
        .load()
        .writeStream.foreachBatch(batches)
        .queryName(flow.name)
        .option("checkpointLocation", os.path.join(job.checkpoint, "query"))
        .start()
    )
