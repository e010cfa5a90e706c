"""Between Millstream and Apache Kafka, both ways; and our records through MirrorMaker's own classes."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterator

import pytest

from millstream.model.clock import SystemClock
from millstream.pipelines.mirror.passing import Done, Work, pass_on
from millstream.pipelines.mirror.upkeep import Upkeep
from tests.compatibility import apache_kafka
from tests.compatibility.apache_kafka import ApacheKafka
from tests.pipelines.mirror import mirrormaker
from tests.pipelines.mirror.reading import consume, contents
from tests.pipelines.mirror.tasks import commit, flow_between, stretches_of, work_between
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess

NOW_MS = 1_700_000_000_000
pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    if (reason := apache_kafka.missing()) is not None:
        pytest.skip(reason)
    with ApacheKafka(tmp_path_factory.mktemp("mirror") / "kafka", heap="512m") as running:
        yield running


def fill(topics: Topics, name: str) -> None:
    """Records of two partitions, some of them aborted, and a topic's own setting."""
    topics.new(2, name=name, settings={"segment.ms": "7200000"})
    topics.put(name, [b"%d" % number for number in range(3_000)], 0, timestamp_ms=NOW_MS, headers=[("h", b"x")])
    topics.put(name, [b"%d" % number for number in range(100)], 1, key=b"k", timestamp_ms=NOW_MS)
    with topics.transaction("no", name, ["given up"]) as producer:
        producer.abort_transaction(30)
    with topics.transaction("yes", name, ["kept"]) as producer:
        producer.commit_transaction(30)


def mirror(source: str, target: str, topic: str) -> None:
    """One micro-batch and one turn of every chore of the flow A->B, by the code that a flow's process runs."""
    flow = flow_between(source, target, f"topics={topic}", "groups=followers", "sync.group.offsets.enabled=true")
    work = work_between(source, target, query=f"mirror-{topic}")

    async def chores() -> None:
        upkeep = Upkeep(flow, SystemClock(), print)
        await upkeep.prepare()
        done: Done = await asyncio.to_thread(_pass, work, source, topic)
        upkeep.learn(done.runs)
        await upkeep.write_syncs()
        await upkeep.beat()
        await upkeep.write_checkpoints()
        await upkeep.groups.sync()
        upkeep.close()

    asyncio.run(chores())


def _pass(work: Work, source: str, topic: str) -> Done:
    done = pass_on(work, stretches_of(source, topic, f"A.{topic}"))
    commit(work, 0, [done])
    return done


def both(kafka: ApacheKafka, broker: BrokerProcess) -> Iterator[tuple[str, str]]:
    return itertools.permutations([kafka.bootstrap, broker.address], 2)


def test_topics_and_groups_go_both_ways(kafka: ApacheKafka, one: BrokerProcess) -> None:
    for number, (source, target) in enumerate(both(kafka, one)):
        topic = f"orders{number}"
        fill(Topics(source), topic)
        read = consume(source, "followers", [topic], 1_500)
        mirror(source, target, topic)
        assert contents(target, f"A.{topic}") == contents(source, topic)
        rest = consume(target, "followers", [f"A.{topic}"], 3_101 - 1_500, more_s=2.0)
        everything = [record.value for records in contents(source, topic).values() for record in records]
        assert Counter([*read, *rest]) == Counter(everything)


def test_mirrormakers_own_classes_read_what_we_wrote(kafka: ApacheKafka, one: BrokerProcess) -> None:
    mirrormaker.classpath_or_skip()
    fill(Topics(kafka.bootstrap), "payments")
    consume(kafka.bootstrap, "followers", ["payments"], 1_500)
    mirror(kafka.bootstrap, one.address, "payments")
    syncs = mirrormaker.formatted(kafka.bootstrap, "mm2-offset-syncs.B.internal", "OffsetSyncFormatter", 8)
    assert "OffsetSync{topicPartition=payments-1, upstreamOffset=99, downstreamOffset=99}" in syncs
    [beat] = mirrormaker.formatted(one.address, "heartbeats", "HeartbeatFormatter", 1)
    assert beat.startswith("Heartbeat{sourceClusterAlias=A, targetClusterAlias=B, timestamp=")
    [checkpoint] = mirrormaker.formatted(one.address, "A.checkpoints.internal", "CheckpointFormatter", 1)
    assert checkpoint.startswith("Checkpoint{consumerGroupId=followers, topicPartition=A.payments-")
