"""A micro-batch in the driver, at a real broker and without Spark."""

from typing import Any

import pytest

from millstream.pipelines.mirror.batches import LOSSES_TOLD_MAX, Batches, Passed
from millstream.pipelines.mirror.passing import Done
from millstream.pipelines.running.failures import PipelineError
from tests.pipelines.mirror.tasks import commit, work_between
from tests.system.broker_process import BrokerProcess


class Row:
    """What Spark gives back of a task."""

    def __init__(self, done: Done) -> None:
        self.done = done.to_text()


class Frame:
    """Stretches whose tasks have done this."""

    def __init__(self, *done: Done) -> None:
        self._done = done

    def mapInArrow(self, work: object, schema: str) -> "Frame":
        return self

    def collect(self) -> list[Row]:
        return [Row(each) for each in self._done]


class Chores:
    """Where nobody wants to know what became of offsets."""

    def learn(self, runs: object) -> None:
        pass


def batches_at(broker: BrokerProcess) -> tuple[Batches, list[str]]:
    said: list[str] = []
    chores: Any = Chores()
    return Batches(work_between(broker.address, broker.address), chores, said.append), said


def test_what_was_lost_is_said_at_once_and_not_without_end(other: BrokerProcess) -> None:
    batches, said = batches_at(other)
    done = Done(losses=tuple(f"t-{number}: gone" for number in range(LOSSES_TOLD_MAX + 3)))
    frame: Any = Frame(done, Done(records=5, size_bytes=50))
    batches(frame, 0)
    assert said == [f"t-{number}: gone" for number in range(LOSSES_TOLD_MAX)] + ["and 3 more partitions lost something"]
    assert (batches.taken(0), batches.taken(0)) == (Passed(5, 50), Passed(0, 0))


def test_a_batch_that_an_earlier_process_decided_is_not_passed_on_again(other: BrokerProcess) -> None:
    batches, _ = batches_at(other)
    commit(work_between(other.address, other.address), 7, [])
    frame: Any = Frame(Done(records=5))
    batches(frame, 7)
    assert batches.taken(7) == Passed(0, 0)
    batches(frame, 8)
    assert batches.taken(8).records == 5


def test_a_checkpoint_that_was_brought_back_to_an_earlier_time_is_refused(other: BrokerProcess) -> None:
    """Its batches would be taken for those that were decided, and left out."""
    batches, _ = batches_at(other)
    commit(work_between(other.address, other.address), 7, [])
    frame: Any = Frame(Done(records=5))
    with pytest.raises(PipelineError, match="the checkpoint is at micro-batch 6, and 7 was decided with it"):
        batches(frame, 6)
