"""Partitions moved between the brokers of a whole cluster, while they are written."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from millstream.broker.broker import Broker
from millstream.model.errors import ErrorCode
from millstream.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from millstream.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from millstream.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from millstream.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
)
from tests.simulation.asking import simulate
from tests.simulation.brokers import SimulatedCluster, host_of
from tests.simulation.network import SimNetwork
from tests.simulation.replicating import (
    TOPIC,
    bytes_of,
    controller_second,
    create,
    create_on,
    in_sync,
    leader_id,
    other_than,
    replicas_of,
    until_in_sync,
    write,
)


async def move(cluster: SimulatedCluster, target: list[int] | None, asked: Broker | None = None) -> ErrorCode:
    """Move the topic's only partition; asked of any broker."""
    connection = await cluster.connect((asked or cluster.running[-1]).id)
    partition = ReassignablePartition(partition_index=0, replicas=target)
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=TOPIC, partitions=[partition])])
    answer = await connection.call(request, AlterPartitionReassignmentsResponse)
    connection.close()
    assert answer.error_code == ErrorCode.NONE
    return ErrorCode(answer.responses[0].partitions[0].error_code)


async def moves(cluster: SimulatedCluster) -> list[OngoingPartitionReassignment]:
    connection = await cluster.connect(cluster.running[-1].id)
    answer = await connection.call(ListPartitionReassignmentsRequest(), ListPartitionReassignmentsResponse)
    connection.close()
    return [row for topic in answer.topics for row in topic.partitions]


async def until_moved(cluster: SimulatedCluster, *target: int) -> None:
    await cluster.until(lambda: set(replicas_of(cluster)) == set(target) == in_sync(cluster))
    assert await moves(cluster) == []


class Writer:
    """Writes one record after the other, with acks=all, and knows what was acknowledged."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self.written = 0
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            await write(self._cluster, f"record {self.written}".encode() + bytes(500))
            self.written += 1
            await asyncio.sleep(0.005)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def with_cluster(
    scenario: Callable[[SimulatedCluster], Awaitable[None]], *, on_controller: bool = False, **settings: str
) -> None:
    """``on_controller``: the controller has a replica, and so is not the broker without one."""

    async def run(network: SimNetwork) -> None:
        cluster = SimulatedCluster(network, count=4, settings={k.replace("_", "."): v for k, v in settings.items()})
        await cluster.start()
        if on_controller:
            await create_on(cluster, controller_second(cluster), min_insync_replicas="2")
        else:
            await create(cluster, replicas=3, min_insync_replicas="2")
        await scenario(cluster)
        await cluster.stop()

    simulate(run)


def agree(cluster: SimulatedCluster, at_least: int) -> bool:
    """Whether all replicas hold the same bytes, and as many records as were acknowledged."""
    logs = {bytes_of(partition) for partition in replicas_of(cluster).values()}
    ends = {partition.high_watermark for partition in replicas_of(cluster).values()}
    return len(logs) == 1 and len(ends) == 1 and min(ends) >= at_least


def test_a_partition_moves_to_another_broker_under_load_and_nothing_is_lost() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        writer = Writer(cluster)
        await asyncio.sleep(1)
        before = list(replicas_of(cluster))
        newcomer = other_than(cluster, *before).id
        mover = leader_id(cluster)
        target = [newcomer, *(number for number in before if number != mover)]
        assert await move(cluster, target) is ErrorCode.NONE
        await until_moved(cluster, *target)
        written = writer.written
        await asyncio.sleep(1)
        await writer.stop()
        assert writer.written > written > 0
        await cluster.until(lambda: agree(cluster, writer.written))
        folders = [log for directory in cluster.broker(mover).logs.directories for log in directory.logs]
        assert not folders, "what was moved away is deleted"

    with_cluster(scenario)


@pytest.mark.parametrize("is_controller", [False, True])
def test_a_move_goes_on_when_a_broker_is_killed_on_the_way(is_controller: bool) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        writer = Writer(cluster)
        await asyncio.sleep(1)
        before = list(replicas_of(cluster))
        newcomer = other_than(cluster, *before).id
        controller = cluster.controller
        assert controller is not None
        victim = controller.id if is_controller else newcomer
        target = [newcomer, *before[:2]]
        await move(cluster, target)
        await cluster.kill(victim)
        await cluster.until(lambda: cluster.controller is not None and victim not in cluster.controller.cluster.brokers)
        await cluster.members[victim].start()
        await until_moved(cluster, *target)
        await writer.stop()
        await cluster.until(lambda: agree(cluster, writer.written))

    with_cluster(scenario)


def test_a_move_is_taken_back_while_its_new_broker_is_away() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await write(cluster, b"one")
        before = list(replicas_of(cluster))
        newcomer = other_than(cluster, *before).id
        asked = other_than(cluster, newcomer)
        assert await move(cluster, None, asked) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        for number in before:  # It hears of its part, and its fetches reach nobody.
            cluster.network.cut(host_of(newcomer), host_of(number))
        assert await move(cluster, [newcomer, *before[:2]], asked) is ErrorCode.NONE
        assert in_sync(cluster) == set(before)
        assert await move(cluster, None, asked) is ErrorCode.NONE
        cluster.network.heal()
        await until_moved(cluster, *before)

    with_cluster(scenario, on_controller=True)


def test_leadership_is_given_back_to_the_first_replica() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        first = leader_id(cluster)
        await cluster.stop(first)
        await cluster.until(lambda: leader_id(cluster) not in (first, -1))
        await cluster.members[first].start()
        await until_in_sync(cluster, *replicas_of(cluster))
        await cluster.until(lambda: leader_id(cluster) == first, timeout_s=120)

    with_cluster(scenario, leader_imbalance_check_interval_seconds="60")


def test_leaders_are_elected_through_any_broker() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        first = leader_id(cluster)
        await cluster.stop(first)
        await cluster.until(lambda: leader_id(cluster) not in (first, -1))
        await cluster.members[first].start()
        await until_in_sync(cluster, *replicas_of(cluster))
        for broker, expected in zip(
            cluster.running, [ErrorCode.NONE, *[ErrorCode.ELECTION_NOT_NEEDED] * 3], strict=True
        ):
            connection = await cluster.connect(broker.id)
            request = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic=TOPIC, partitions=[0])])
            answer = await connection.call(request, ElectLeadersResponse)
            assert answer.replica_election_results[0].partition_result[0].error_code == expected
        await cluster.until(lambda: leader_id(cluster) == first)

    with_cluster(scenario)


def test_whoever_is_eligible_is_told_and_leads_when_the_last_in_sync_is_gone() -> None:
    """Fault 6, with real brokers: the last replica standing loses its unflushed records with its power."""

    async def scenario(cluster: SimulatedCluster) -> None:
        holders = list(replicas_of(cluster))
        end = 0
        for number in range(20):
            end = 1 + await write(cluster, f"record {number}".encode())
        last = leader_id(cluster)
        second, third = (number for number in holders if number != last)
        await cluster.stop(third)
        await cluster.stop(second)
        await cluster.until(lambda: in_sync(cluster) == {last})
        connection = await cluster.connect(last)
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=TOPIC)])
        told = await connection.call(request, DescribeTopicPartitionsResponse)
        assert told.topics[0].partitions[0].eligible_leader_replicas == [second]
        await cluster.kill(last, power=True)
        await cluster.members[last].start()
        await asyncio.sleep(10)
        assert leader_id(cluster) == -1, "it may have lost what was committed"
        await cluster.members[second].start()
        await cluster.until(lambda: leader_id(cluster) == second)
        await cluster.members[third].start()
        await until_in_sync(cluster, *holders)
        await cluster.until(lambda: agree(cluster, end))

    with_cluster(scenario)


@pytest.mark.parametrize("seed", range(2))
def test_moves_begun_replaced_and_taken_back_between_kills_lose_nothing(seed: int) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        dice = random.Random(seed)
        writer = Writer(cluster)
        for _ in range(12):
            everyone = sorted(cluster.members)
            target = dice.sample(everyone, dice.choice((2, 3, 3, 4)))
            act = dice.choice(("move", "move", "back", "kill", "kill controller", "stop"))
            if act in ("move", "back"):
                await move(cluster, target if act == "move" else None, dice.choice(cluster.running))
            else:
                controller = cluster.controller
                is_unseated = act == "kill controller" and controller is not None
                victim = controller.id if is_unseated and controller else dice.choice(everyone)
                await (cluster.stop(victim) if act == "stop" else cluster.kill(victim))
                await asyncio.sleep(dice.uniform(0, 4))
                await cluster.members[victim].start()
            await asyncio.sleep(dice.uniform(0, 2))
        written = writer.written
        await cluster.until(lambda: writer.written > written)
        await writer.stop()
        for _ in range(60):
            if not await moves(cluster):
                break
            await asyncio.sleep(1)
        assert await moves(cluster) == []
        await cluster.until(lambda: in_sync(cluster) == set(replicas_of(cluster)))
        await cluster.until(lambda: agree(cluster, writer.written))

    with_cluster(scenario)
