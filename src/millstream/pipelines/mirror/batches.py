"""A micro-batch of a flow, in Spark's driver: its tasks pass stretches on, and then all of it counts, or none."""

import functools
import os
from collections.abc import Mapping
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
from millstream.pipelines.running.job import Job
from millstream.pipelines.spark.sink.process import sink_process
from millstream.pipelines.spark.sink.protocol import commit_plan

#: The file that names the query in the target's decisions; it goes with the checkpoint that it lies in.
IDENTITY = "mirror-id"
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

    def __init__(self, work: Work, beside: Beside) -> None:
        self._work = work
        self._beside = beside
        self._is_first = True
        self.passed: dict[int, Passed] = {}
        self.lost = 0

    def __call__(self, stretches: DataFrame, number: int) -> None:
        here = sink_process(self._work.options())
        driver = here.driver(self._work.query)
        done: list[Done] = []
        if not self._is_first or here.run(driver.last_decision()).batch < number:  # Else an earlier process wrote it.
            rows = stretches.mapInArrow(functools.partial(pass_rows, self._work), "done string").collect()
            done = [Done.from_text(row.done) for row in rows]
        self._is_first = False
        mine = [each.transaction for each in done if each.transaction is not None]
        here.run(driver.carry_out(commit_plan(number, mine)))
        decision = here.run(driver.last_decision())
        if set(decision.transactions) == set(mine):  # Else it was decided before, and written now in vain.
            runs: dict[TopicPartition, list[Run]] = {}
            for each in done:
                runs |= each.runs
            self._beside.learn(runs)
        self.lost += sum(each.lost for each in done)
        self.passed[number] = Passed(sum(each.records for each in done), sum(each.size_bytes for each in done))

    def taken(self, number: int) -> Passed:
        """What the batch was; asked for once."""
        return self.passed.pop(number, Passed(0, 0))


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
