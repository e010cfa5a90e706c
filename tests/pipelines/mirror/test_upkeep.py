"""What goes on beside the records, between two real brokers: topics in step, groups followed, what fails told."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from confluent_kafka import Consumer

from millstream.client.admin import Change, Operation, Resource, alter_configs, describe_configs
from millstream.client.cluster import Cluster
from millstream.client.coordinators import Coordinators
from millstream.client.groups import commit_offsets, committed_offsets
from millstream.client.partitions import READ_COMMITTED
from millstream.client.reader import Reader
from millstream.client.wire import parse_addresses
from millstream.model.clock import SystemClock
from millstream.model.ids import TopicPartition
from millstream.model.records import Record
from millstream.pipelines.mirror.definition import Flow
from millstream.pipelines.mirror.formats import Checkpoint, Heartbeat, OffsetSync
from millstream.pipelines.mirror.topics import TopicsInStep
from millstream.pipelines.mirror.translation import Run
from millstream.pipelines.mirror.upkeep import Upkeep
from tests.pipelines.mirror.tasks import flow_between
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess

PLACE = TopicPartition("t", 0)


def with_upkeep(flow: Flow, work: Callable[[Upkeep], Awaitable[None]]) -> list[str]:
    """Prepare a flow's chores and do ``work`` with them; what they told."""
    told: list[str] = []

    async def scenario() -> None:
        upkeep = Upkeep(flow, SystemClock(), told.append, lambda: told.append("a cluster is away"))
        await upkeep.prepare()
        try:
            await work(upkeep)
        finally:
            upkeep.close()

    asyncio.run(scenario())
    return told


async def read_all(cluster: Cluster, topic: str) -> list[Record]:
    from millstream.client.lag import spans_of

    tp = TopicPartition(topic, 0)
    span = (await spans_of(cluster, [tp]))[tp]
    reader = Reader(cluster, {tp: span.start}, {tp: span.end}, isolation=READ_COMMITTED)
    return [record async for read in reader.read() for record in read.records]


def settings_of(address: str, topic: str) -> dict[str, str | None]:
    async def ask() -> dict[str, str | None]:
        async with Cluster(parse_addresses(address)) as cluster:
            found = await describe_configs(cluster, Resource.TOPIC, topic)
            return {each.name: each.value for each in found if each.source == "topic"}

    return asyncio.run(ask())


def set_topic(address: str, topic: str, name: str, value: str | None) -> None:
    async def change() -> None:
        async with Cluster(parse_addresses(address)) as cluster:
            operation = Operation.DELETE if value is None else Operation.SET
            await alter_configs(cluster, Resource.TOPIC, topic, [Change(name, operation, value)])

    asyncio.run(change())


def step(flow: Flow) -> None:
    """One turn of the chores that keep topics in step."""

    async def scenario() -> None:
        source, target = (Cluster(parse_addresses(each)) for each in (flow.source_bootstrap, flow.target_bootstrap))
        topics = TopicsInStep(flow, source, target)
        assert await topics.refresh() == []
        await topics.sync_configs()
        source.close()
        target.close()

    asyncio.run(scenario())


def test_topics_are_made_widened_and_set_as_they_are_at_the_source(one: BrokerProcess, other: BrokerProcess) -> None:
    topics = Topics(one.address)
    topics.new(3, name="t", settings={"retention.ms": "777000", "min.insync.replicas": "1"})
    topics.new(1, name="B.back")
    flow = flow_between(one.address, other.address)
    step(flow)
    assert settings_of(other.address, "A.t") == {"retention.ms": "777000"}
    topics.grow("t", 5)
    set_topic(one.address, "t", "retention.ms", None)
    set_topic(one.address, "t", "cleanup.policy", "compact")
    set_topic(other.address, "A.t", "min.insync.replicas", "1")
    step(flow)
    assert settings_of(other.address, "A.t") == {"cleanup.policy": "compact", "min.insync.replicas": "1"}

    async def look() -> tuple[int, set[str]]:
        async with Cluster(parse_addresses(other.address)) as cluster:
            await cluster.refresh(None)
            return len(cluster.topics["A.t"].partitions), set(cluster.topics)

    assert asyncio.run(look()) == (5, {"A.t"})


def test_a_new_flow_says_so_where_its_topics_have_records_already(one: BrokerProcess, other: BrokerProcess) -> None:
    for name in ("t", "u"):
        Topics(one.address).new(1, name=name)
    flow = flow_between(one.address, other.address)

    async def look(upkeep: Upkeep) -> None:
        await upkeep.beat()
        await upkeep.look()
        await upkeep.tell_of_others()

    assert with_upkeep(flow, look) == []
    Topics(other.address).put("A.t", [b"from before"])
    told = with_upkeep(flow, look)
    assert told == ["the checkpoint is new, and there are records in A.t: all are mirrored, behind those"]


def test_syncs_checkpoints_and_heartbeats_are_written_and_syncs_outlive_the_process(
    one: BrokerProcess, other: BrokerProcess
) -> None:
    Topics(one.address).new(1, name="t")
    flow = flow_between(one.address, other.address)

    async def first(upkeep: Upkeep) -> None:
        upkeep.learn({PLACE: [Run(0, 0, 10), Run(12, 11, 3)]})
        await upkeep.write_syncs()
        await upkeep.beat()
        async with Cluster(parse_addresses(one.address)) as source:
            await commit_offsets(Coordinators(source), "g", {PLACE: 13})
            assert [
                OffsetSync.decode(each.key or b"", each.value or b"")
                for each in await read_all(source, "mm2-offset-syncs.B.internal")
            ] == [OffsetSync(PLACE, 0, 0), OffsetSync(PLACE, 14, 13)]
            [beat] = [
                Heartbeat.decode(each.key or b"", each.value or b"") for each in await read_all(source, "heartbeats")
            ]
            assert (beat.source, beat.target) == ("B", "A")
        for _ in range(2):  # What has not moved is not told again.
            await upkeep.write_checkpoints()
        async with Cluster(parse_addresses(other.address)) as target:
            [checkpoint] = [
                Checkpoint.decode(each.key or b"", each.value or b"")
                for each in await read_all(target, "A.checkpoints.internal")
            ]
            assert checkpoint == Checkpoint("g", TopicPartition("A.t", 0), 13, 12)

    assert with_upkeep(flow, first) == []

    async def second(upkeep: Upkeep) -> None:
        assert [upkeep.translations.downstream(PLACE, offset) for offset in (0, 13, 14, 15)] == [0, 1, 13, 14]
        upkeep.learn({PLACE: [Run(20, 20, 5)]})
        await upkeep.write_syncs()
        async with Cluster(parse_addresses(one.address)) as source:
            assert len(await read_all(source, "mm2-offset-syncs.B.internal")) == 3

    with_upkeep(flow, second)


def test_only_groups_that_are_idle_at_the_target_are_moved_and_never_back(
    one: BrokerProcess, other: BrokerProcess
) -> None:
    Topics(one.address).new(1, name="t")
    flow = flow_between(one.address, other.address, "sync.group.offsets.enabled=true")
    remote = TopicPartition("A.t", 0)

    async def scenario(upkeep: Upkeep) -> None:
        upkeep.learn({PLACE: [Run(0, 0, 100)]})
        async with (
            Cluster(parse_addresses(one.address)) as source,
            Cluster(parse_addresses(other.address)) as target,
        ):
            here, there = Coordinators(source), Coordinators(target)
            for group in ("idle", "ahead", "busy"):
                await commit_offsets(here, group, {PLACE: 50})
            await commit_offsets(there, "ahead", {remote: 70})
            busy = Consumer({"bootstrap.servers": other.address, "group.id": "busy", "log_level": 2})
            busy.subscribe(["A.t"])
            while not busy.assignment():
                busy.poll(0.1)
            await upkeep.groups.refresh()
            assert await upkeep.groups.sync() == 1
            found = {group: await committed_offsets(there, group) for group in ("idle", "ahead", "busy")}
            busy.close()
        offsets = {group: [at.offset for at in places.values()] for group, places in found.items()}
        assert offsets == {"idle": [50], "ahead": [70], "busy": []}

    with_upkeep(flow, scenario)


@pytest.mark.timeout(60)
def test_a_chore_that_fails_is_told_once_and_done_again(one: BrokerProcess, other: BrokerProcess) -> None:
    flow = flow_between(one.address, other.address, "request.timeout.ms=500")

    told: list[str] = []
    failed, mended = asyncio.Event(), asyncio.Event()

    def tell(line: str) -> None:
        if line.startswith("heartbeats: "):
            told.append(line)
            (mended if line == "heartbeats: done again" else failed).set()

    async def scenario() -> None:
        upkeep = Upkeep(flow, SystemClock(), tell)
        await upkeep.prepare()
        chores = asyncio.create_task(upkeep.run())
        other.kill()
        await failed.wait()
        await asyncio.to_thread(other.start)
        await mended.wait()
        chores.cancel()
        await asyncio.gather(chores, return_exceptions=True)
        upkeep.close()

    asyncio.run(scenario())
    assert len(told) == 2
