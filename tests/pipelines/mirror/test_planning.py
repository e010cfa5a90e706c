"""What a flow plans at real brokers, when topics of its source come and go."""

from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable

from millstream.pipelines.mirror.passing import pass_on
from millstream.pipelines.mirror.source import TOPICS_AGE_MAX_S, MirrorReader, Stretches
from tests.pipelines.mirror.reading import contents
from tests.pipelines.mirror.tasks import commit, flow_between, work_between
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess


class Clock:
    """Stands still, but for what it is told: so that nobody waits until topics are looked for again."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s

    def now_ms(self) -> int:
        return 0


class Planning:
    """A flow's reader, asked as Spark does."""

    def __init__(self, one: BrokerProcess, other: BrokerProcess) -> None:
        self.clock = Clock()
        self.reader = MirrorReader(flow_between(one.address, other.address, "tasks.max=1"), self.clock)
        self.work = work_between(one.address, other.address, timeout_ms=10_000)
        self.at: dict[str, Any] = {}
        self.number = 0

    def plan(self) -> dict[str, Any]:
        self.clock.now_s += TOPICS_AGE_MAX_S
        return self.reader.latestOffset(self.at, ReadAllAvailable())

    def run(self) -> tuple[str, ...]:
        """A micro-batch; what it lost."""
        end = self.plan()
        losses: tuple[str, ...] = ()
        for task in self.reader.partitions(self.at, end):
            assert isinstance(task, Stretches)
            done = pass_on(self.work, task.stretches)
            commit(self.work, self.number, [done])
            losses += done.losses
        self.number += 1
        self.at = end
        return losses


def test_a_topic_that_was_made_again_is_mirrored_from_its_beginning_though_it_has_more_than_before(
    one: BrokerProcess, other: BrokerProcess
) -> None:
    topics = Topics(one.address)
    topics.new(1, name="t")
    Topics(other.address).new(1, name="A.t")
    topics.put("t", [b"first %d" % number for number in range(10)])
    planning = Planning(one, other)
    assert planning.run() == ()
    topics.delete("t")
    assert planning.plan() == planning.at, "it may come back"
    topics.new(1, name="t")
    topics.put("t", [b"second %d" % number for number in range(20)])
    assert planning.run() == ()
    assert [offsets for name, offsets in planning.at.items() if name.startswith("t:")] == [{"0": 20}]
    values = [record.value for record in contents(other.address, "A.t")[0]]
    assert values == [b"first %d" % number for number in range(10)] + [b"second %d" % number for number in range(20)]
    planning.reader.stop()


def test_a_source_that_is_made_again_between_plan_and_look_costs_nothing(
    one: BrokerProcess, other: BrokerProcess
) -> None:
    topics = Topics(one.address)
    topics.new(1, name="t")
    Topics(other.address).new(1, name="A.t")
    topics.put("t", [b"first"])
    planning = Planning(one, other)
    planning.run()
    topics.delete("t")
    topics.new(1, name="t")
    topics.put("t", [b"second", b"third"])
    planning.clock.now_s -= TOPICS_AGE_MAX_S  # Nobody has looked: its offsets are taken for those of the one before.
    assert planning.run() == ("t-0: the topic was deleted before offsets 1 to 2 were read",)
    assert planning.run() == ()
    assert [record.value for record in contents(other.address, "A.t")[0]] == [b"first", b"second", b"third"]
    planning.reader.stop()
