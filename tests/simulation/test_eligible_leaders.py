"""Whoever left the in-sync set when nothing more was committed may lead, and nobody else, whatever is set meanwhile."""

import asyncio

import pytest

from millstream.broker.broker import Broker
from millstream.client.admin import Resource
from millstream.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from millstream.registry.nodes import PARTITION_STATE
from tests.simulation.asking import read_all, simulate
from tests.simulation.brokers import SimulatedCluster
from tests.simulation.network import SimNetwork
from tests.simulation.replicating import TOPIC, create_on, in_sync, leader_id, until_in_sync, write

MIN_INSYNC = "min.insync.replicas"
#: By Kafka's numbers.
SET, DELETE = 0, 1
#: The broker that leads, or all brokers, or the topic.
LEADER, BROKERS = "the leader", "all brokers"


async def alter(cluster: SimulatedCluster, asked: int, whose: str, value: str | None) -> None:
    """Have one broker change min.insync.replicas of the topic, of itself or of all brokers; None takes it back."""
    kind, name = Resource.BROKER, {LEADER: str(asked), BROKERS: ""}.get(whose)
    if name is None:
        kind, name = Resource.TOPIC, whose
    row = AlterableConfig(name=MIN_INSYNC, config_operation=DELETE if value is None else SET, value=value)
    resource = AlterConfigsResource(resource_type=int(kind), resource_name=name, configs=[row])
    connection = await cluster.connect(asked)
    answer = await connection.call(
        IncrementalAlterConfigsRequest(resources=[resource]), IncrementalAlterConfigsResponse
    )
    connection.close()
    assert answer.responses[0].error_code == 0


def controller(cluster: SimulatedCluster) -> Broker:
    assert cluster.controller is not None
    return cluster.controller


async def eligible(cluster: SimulatedCluster) -> tuple[int, ...]:
    node = await controller(cluster).registry.get(PARTITION_STATE.path(TOPIC, 0))
    assert node is not None
    return PARTITION_STATE.decode(node.data, TOPIC, 0).eligible


async def begun(cluster: SimulatedCluster, own: str | None = "2") -> tuple[int, int]:
    """The leader and the follower of a partition of two replicas, neither of which is controller."""
    await cluster.start()
    first, second = (each for each in cluster.members if each != controller(cluster).id)
    await create_on(cluster, [first, second], **({} if own is None else {"min_insync_replicas": own}))
    await until_in_sync(cluster, first, second)
    await write(cluster, b"both")
    assert leader_id(cluster) == first
    return first, second


async def after_a_kill(cluster: SimulatedCluster, first: int, second: int) -> list[bytes | None]:
    """What can be read after the leader was killed and came back behind the other replica, which could not lead."""
    await cluster.kill(first)
    await cluster.start(second)
    await asyncio.sleep(20)
    assert leader_id(cluster) < 0
    await cluster.start(first)
    await cluster.until(lambda: leader_id(cluster) == first)
    connection = await cluster.connect(first)
    found = await read_all(connection, TOPIC)
    connection.close()
    return found


@pytest.mark.parametrize("whose", [LEADER, BROKERS, TOPIC])
def test_nobody_is_eligible_who_missed_what_was_committed_while_fewer_had_to_be_in_sync(whose: str) -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = SimulatedCluster(network, settings={MIN_INSYNC: "2"})
        first, second = await begun(cluster, own="2" if whose == TOPIC else None)
        await cluster.stop(second)
        await cluster.until(lambda: in_sync(cluster) == {first})
        assert await eligible(cluster) == (second,)
        await alter(cluster, first, whose, "1")
        await write(cluster, b"one alone")
        await alter(cluster, first, whose, "2" if whose == TOPIC else None)
        await asyncio.sleep(5)
        assert await eligible(cluster) == ()
        assert await after_a_kill(cluster, first, second) == [b"both", b"one alone"]
        await cluster.stop()

    simulate(scenario)


def test_a_controller_that_is_busy_lets_nobody_lead_who_missed_what_was_committed() -> None:
    """It looks at the settings when they are as they were before."""

    async def scenario(network: SimNetwork) -> None:
        cluster = SimulatedCluster(network)
        first, second = await begun(cluster)
        await cluster.stop(second)
        await cluster.until(lambda: in_sync(cluster) == {first})

        async def busy() -> None:
            await asyncio.sleep(3)

        controller(cluster).controller._turns.post(busy)
        await alter(cluster, first, TOPIC, "1")
        await write(cluster, b"one alone")
        await alter(cluster, first, TOPIC, "2")
        await asyncio.sleep(5)
        assert await eligible(cluster) == ()
        await cluster.stop()

    simulate(scenario)


@pytest.mark.parametrize("whose", [LEADER, BROKERS, TOPIC])
def test_what_waited_for_more_to_be_in_sync_is_shown_once_fewer_have_to_be(whose: str) -> None:
    """Nobody is eligible, nothing more is written, and no follower fetches: nothing else moves the watermark."""

    async def scenario(network: SimNetwork) -> None:
        cluster = SimulatedCluster(network)
        first, second = await begun(cluster, own="1" if whose == TOPIC else None)
        await cluster.stop(second)
        await cluster.until(lambda: in_sync(cluster) == {first})
        await alter(cluster, first, whose, "2")
        assert await eligible(cluster) == ()
        await write(cluster, b"one alone", acks=1)
        connection = await cluster.connect(first)
        assert await read_all(connection, TOPIC) == [b"both"]
        await alter(cluster, first, whose, "1")
        await asyncio.sleep(1)
        assert await read_all(connection, TOPIC) == [b"both", b"one alone"]
        connection.close()
        await cluster.stop()

    simulate(scenario)


def test_a_leader_that_hears_late_that_more_must_be_in_sync_commits_nothing_that_others_may_miss() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = SimulatedCluster(network, settings={MIN_INSYNC: "2"})
        await cluster.start()
        await alter(cluster, controller(cluster).id, BROKERS, "1")
        first, second = (each for each in cluster.members if each != controller(cluster).id)
        await create_on(cluster, [first, second])
        await until_in_sync(cluster, first, second)
        followed = cluster.broker(first).settings._brokers
        refresh = followed.refresh

        async def late() -> None:
            await asyncio.sleep(4)
            await refresh()

        followed.refresh = late  # type: ignore[method-assign]
        await alter(cluster, controller(cluster).id, BROKERS, None)
        await cluster.kill(second)
        await cluster.until(lambda: in_sync(cluster) == {first})
        await write(cluster, b"one alone", within_s=2)
        assert await eligible(cluster) == ()
        await cluster.stop()

    simulate(scenario)
