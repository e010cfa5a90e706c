"""Several brokers on virtual time: one cluster to clients, whichever broker they ask."""

import asyncio
from functools import partial

import pytest

from millstream.broker.broker import Broker
from millstream.client.wire import Connection
from millstream.model.errors import ErrorCode
from millstream.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from millstream.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from millstream.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)
from tests.simulation.asking import simulate
from tests.simulation.brokers import SimulatedCluster
from tests.simulation.network import SimNetwork


async def create(connection: Connection, name: str, partitions: int = 1, replicas: int = 3) -> None:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)
    answer = await connection.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), CreateTopicsResponse)
    assert answer.topics[0].error_code == ErrorCode.NONE, answer.topics[0]


async def partitions_of(connection: Connection, name: str) -> dict[int, MetadataResponsePartition]:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    answer = await connection.call(request, MetadataResponse)
    assert answer.topics[0].error_code == ErrorCode.NONE, answer.topics[0]
    return {row.partition_index: row for row in answer.topics[0].partitions}


def knows_brokers(broker: Broker, count: int) -> bool:
    return len(broker.cluster.brokers) == count


def knows_topics(broker: Broker, count: int) -> bool:
    return len(broker.cluster.topics) == count


def has_registered_since(broker: Broker, epoch: int) -> bool:
    return broker.replicas.broker_epoch > epoch


def test_three_brokers_form_one_cluster_with_one_controller() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = SimulatedCluster(network)
        await cluster.start()
        assert [broker.controller.is_active for broker in cluster.running].count(True) == 1
        controller = cluster.controller
        assert controller is not None
        for broker in cluster.running:
            await cluster.until(partial(knows_brokers, broker, 3))
            connection = await cluster.connect(broker.id)
            told = await connection.call(DescribeClusterRequest(), DescribeClusterResponse)
            assert sorted(row.broker_id for row in told.brokers) == [1, 2, 3]
            assert sorted(row.host for row in told.brokers) == ["broker-1", "broker-2", "broker-3"]
            assert told.controller_id == controller.id
            assert told.cluster_id == controller.cluster.cluster_id
        await cluster.stop()

    simulate(scenario)


def test_a_topic_made_through_any_broker_is_spread_and_known_everywhere() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = SimulatedCluster(network)
        await cluster.start()
        for broker_id in cluster.members:
            connection = await cluster.connect(broker_id)
            await create(connection, f"orders-{broker_id}", partitions=6, replicas=2)
            rows = await partitions_of(connection, f"orders-{broker_id}")  # Whoever was asked knows it at once.
            assert sorted(row.leader_id for row in rows.values()) == [1, 1, 2, 2, 3, 3]
            assert all(len(row.replica_nodes) == 2 for row in rows.values())
        for broker in cluster.running:
            await cluster.until(partial(knows_topics, broker, 3))
            led = [p for p in broker.replicas if p.role.leadership.leader == broker.id]
            assert len(led) == 6
        await cluster.stop()

    simulate(scenario)


def test_another_broker_becomes_controller_when_the_first_is_killed() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = SimulatedCluster(network)
        await cluster.start()
        first = cluster.controller
        assert first is not None
        other = next(broker for broker in cluster.running if broker is not first)
        await create(await cluster.connect(other.id), "orders", partitions=3)
        epoch = first.controller.epoch
        await cluster.kill(first.id)
        await cluster.until(lambda: cluster.controller is not None, timeout_s=0.1)  # Its session ends much later.
        second = cluster.controller
        assert second is not None and second is not first and second.controller.epoch > epoch
        for broker in cluster.running:
            await cluster.until(partial(knows_brokers, broker, 2), timeout_s=0.1)
            assert broker.cluster.controller_id == second.id and first.id not in broker.cluster.brokers
        rows = await partitions_of(await cluster.connect(second.id), "orders")
        assert all(row.leader_id not in (first.id, -1) for row in rows.values())
        await create(await cluster.connect(other.id), "more", replicas=2)
        await cluster.stop()

    simulate(scenario)


def test_a_brokers_leaderships_move_when_it_is_killed_and_it_follows_when_it_is_back() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = SimulatedCluster(network)
        await cluster.start()
        controller = cluster.controller
        assert controller is not None
        victim = next(broker.id for broker in cluster.running if broker is not controller)
        connection = await cluster.connect(controller.id)
        await create(connection, "orders", partitions=6)
        await cluster.kill(victim)
        await cluster.until(lambda: victim not in controller.cluster.brokers, timeout_s=0.1)
        rows = await partitions_of(connection, "orders")
        assert all(row.leader_id not in (victim, -1) for row in rows.values())
        assert all(row.offline_replicas == [victim] for row in rows.values())
        back = await cluster.members[victim].start()
        rows = await partitions_of(await cluster.connect(victim), "orders")
        assert all(row.offline_replicas == [] for row in rows.values())
        assert sum(1 for _ in back.replicas) == 6
        await cluster.stop()

    simulate(scenario)


@pytest.mark.parametrize("is_controller", [False, True])
def test_a_broker_that_stops_hands_its_leaderships_over_first(is_controller: bool) -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = SimulatedCluster(network)
        await cluster.start()
        leaver = next(broker for broker in cluster.running if broker.controller.is_active is is_controller)
        stayer = next(broker for broker in cluster.running if broker is not leaver)
        connection = await cluster.connect(stayer.id)
        await create(connection, "orders", partitions=6, replicas=2)
        before_s = network_time_s()
        await cluster.stop(leaver.id)
        assert network_time_s() - before_s < 0.5
        rows = await partitions_of(connection, "orders")
        assert all(row.leader_id not in (leaver.id, -1) for row in rows.values())
        await cluster.until(lambda: cluster.controller is not None)
        await cluster.members[leaver.id].start()
        await cluster.stop()

    def network_time_s() -> float:
        return asyncio.get_running_loop().time()

    simulate(scenario)


def test_two_of_three_are_found_dead_at_once_by_the_one_that_is_left() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = SimulatedCluster(network)
        await cluster.start()
        controller = cluster.controller
        assert controller is not None
        left, other = (broker for broker in cluster.running if broker is not controller)
        await create(await cluster.connect(left.id), "orders", partitions=6)
        await asyncio.gather(cluster.kill(controller.id), cluster.kill(other.id))
        await cluster.until(lambda: cluster.controller is left, timeout_s=0.5)
        await cluster.until(partial(knows_brokers, left, 1), timeout_s=0.5)
        rows = await partitions_of(await cluster.connect(left.id), "orders")
        assert all(row.leader_id == left.id for row in rows.values())
        await cluster.stop()

    simulate(scenario)


def test_a_broker_whose_address_is_wrong_is_not_struck_off_again_and_again() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = SimulatedCluster(network)
        await cluster.start(1, 2)
        cluster.members[3].settings["advertised.listeners"] = "PLAINTEXT://nowhere:1"
        starting = asyncio.create_task(cluster.members[3].start())
        await asyncio.sleep(5)
        epoch = cluster.members[3].broker.replicas.broker_epoch  # type: ignore[union-attr]
        assert epoch > 0 and not starting.done()
        await asyncio.sleep(30)
        assert cluster.members[3].broker.replicas.broker_epoch == epoch  # type: ignore[union-attr]
        starting.cancel()
        await asyncio.wait([starting])
        await cluster.stop(1, 2)

    simulate(scenario)


def test_a_broker_whose_session_ends_registers_anew_under_a_new_epoch() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = SimulatedCluster(network)
        await cluster.start()
        await create(await cluster.connect(1), "orders", partitions=6)
        for broker in cluster.running:
            epoch = broker.replicas.broker_epoch
            cluster.expire(broker.id)
            await cluster.until(partial(has_registered_since, broker, epoch))
            await asyncio.sleep(1)
            assert all(knows_brokers(other, 3) for other in cluster.running) and cluster.controller is not None
        rows = await partitions_of(await cluster.connect(1), "orders")
        assert all(row.leader_id != -1 and row.offline_replicas == [] for row in rows.values())
        await cluster.stop()

    simulate(scenario)
