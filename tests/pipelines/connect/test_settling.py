"""What a connector's earlier generations left in the topics, ended before a new one begins; a broker and no Spark."""

import dataclasses
import os
from pathlib import Path
from typing import Any

from millstream.pipelines.connect.base import Batch
from millstream.pipelines.connect.job import Job
from millstream.pipelines.connect.letters import Raw
from millstream.pipelines.connect.spark import queries
from millstream.pipelines.connect.spark.assembly import query_of
from millstream.pipelines.connect.spark.letters import options_of, write_letters
from millstream.pipelines.spark.sink.coordinator import Driver
from millstream.pipelines.spark.sink.process import sink_process
from millstream.pipelines.spark.sink.protocol import Decide, Step, commit_plan
from tests.pipelines.records import values_of
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess


async def _taken(driver: Driver, step: Step) -> Any:
    """What a step of a plan brings."""
    return await driver._steps[type(step)](step)


def test_what_was_decided_is_committed_and_the_rest_taken_back_but_not_others_work(
    broker: BrokerProcess, topics: Topics, tmp_path: Path
) -> None:
    """One batch was decided and its driver died, one was only written, and others are in the middle of theirs.

    One of them has the same name in another group of workers.
    """
    topic = topics.new()
    old, other = (Job(broker.address, {"name": name}, str(tmp_path)) for name in ("settled", "settled-too"))
    namesake = dataclasses.replace(old, group="elsewhere")
    here = sink_process(options_of(old))

    def written(job: Job, value: bytes, checkpoint: str) -> None:
        transaction = write_letters(job, [Raw(topic, None, value)], Batch(query_of(job, checkpoint), 0), 0)
        assert transaction is not None
        if value == b"decided":
            plan = commit_plan(0, [transaction])
            driver = here.driver(query_of(job, checkpoint))
            step = next(plan)
            while not isinstance(step, Decide):
                step = plan.send(here.run(_taken(driver, step)))
            here.run(_taken(driver, step))

    written(old, b"decided", "first")
    written(old, b"only written", "second")
    written(other, b"another's", "third")
    written(namesake, b"a namesake's", "fourth")
    new = dataclasses.replace(old, generation=1)
    os.makedirs(new.folder)
    queries.settle(here, new)
    assert values_of(broker.address, topic) == [b"decided"]
    queries.settle(here, dataclasses.replace(other, generation=1))
    topics.put(topic, [b"later"])
    assert values_of(broker.address, topic) == [b"decided"], "the namesake's is still open"
    queries.settle(here, dataclasses.replace(namesake, generation=1))
    assert values_of(broker.address, topic) == [b"decided", b"later"]
