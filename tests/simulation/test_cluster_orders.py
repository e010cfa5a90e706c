"""Orders over the wire: what only brokers are told of, and what is too old to be followed (fault 4, KIP-570)."""

from typing import Any

import pytest

from millstream.broker.broker import Broker
from millstream.broker.channels import BROKER_SOFTWARE
from millstream.broker.cluster_view import FULL
from millstream.controller.interface import EPOCH_DURING_DELETE
from millstream.model.errors import ErrorCode
from millstream.model.ids import TopicPartition
from millstream.net.channel import Address, Connection, reach
from millstream.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from millstream.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from millstream.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from millstream.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from millstream.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from millstream.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from tests.simulation.asking import simulate
from tests.simulation.broker import PORT
from tests.simulation.brokers import SimulatedCluster, host_of
from tests.simulation.network import SimNetwork
from tests.simulation.test_cluster import create

AMONG_BROKERS = (
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
    ControlledShutdownRequest,
    AlterPartitionRequest,
)


async def as_broker(network: SimNetwork, broker_id: int) -> Connection:
    address = Address(host_of(broker_id), PORT)
    connection = await reach(network, address, client_id="test", software=BROKER_SOFTWARE)  # type: ignore[arg-type]
    await connection.negotiate()
    return connection


def orders(broker: Broker) -> list[Any]:
    """Each would make another broker lead the topic, or end this one's part in it."""
    topic_id = broker.cluster.topics["orders"].topic_id
    role = LeaderAndIsrPartitionState(leader=7, leader_epoch=9, isr=[7], partition_epoch=9, replicas=[7])
    state = UpdateMetadataPartitionState(leader=7, leader_epoch=9, isr=[7], zk_version=9, replicas=[7])
    stop = StopReplicaPartitionState(leader_epoch=9, delete_partition=True)
    return [
        LeaderAndIsrRequest(
            topic_states=[LeaderAndIsrTopicState(topic_name="orders", topic_id=topic_id, partition_states=[role])]
        ),
        UpdateMetadataRequest(
            topic_states=[UpdateMetadataTopicState(topic_name="orders", topic_id=topic_id, partition_states=[state])]
        ),
        StopReplicaRequest(topic_states=[StopReplicaTopicState(topic_name="orders", partition_states=[stop])]),
    ]


def test_clients_are_not_told_of_what_brokers_ask_of_each_other() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = SimulatedCluster(network)
        await cluster.start()
        keys = {kind.API_KEY for kind in AMONG_BROKERS}
        assert not keys & (await cluster.connect(1)).versions.keys()
        assert keys <= (await as_broker(network, 1)).versions.keys()
        await cluster.stop()

    simulate(scenario)


@pytest.mark.parametrize("stale", ["controller", "broker"])
def test_fault_4_an_order_of_an_earlier_controller_or_to_an_earlier_life_changes_nothing(stale: str) -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = SimulatedCluster(network)
        await cluster.start()
        await create(await cluster.connect(1), "orders")
        for broker in cluster.running:
            connection = await as_broker(network, broker.id)
            leadership = broker.replicas.find("orders", 0).role.leadership
            state = broker.cluster.topics["orders"].partitions[0]
            for order in orders(broker):
                order.controller_id = 7
                order.controller_epoch = broker.replicas.controller_epoch - (stale == "controller")
                order.broker_epoch = broker.replicas.broker_epoch - (stale == "broker")
                answer = await connection.call(order, order.RESPONSE)
                assert answer.error_code == ErrorCode[f"STALE_{stale.upper()}_EPOCH"]
                assert broker.replicas.find("orders", 0).role.leadership == leadership
                assert broker.cluster.topics["orders"].partitions[0] == state
        await cluster.stop()

    simulate(scenario)


def test_an_order_to_delete_that_comes_late_spares_a_topic_that_has_the_name_since() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = SimulatedCluster(network)
        await cluster.start()
        await create(await cluster.connect(1), "orders")
        old_id = cluster.broker(1).cluster.topics["orders"].topic_id
        name = DeleteTopicState(name="orders")
        await (await cluster.connect(1)).call(DeleteTopicsRequest(topics=[name]), DeleteTopicsResponse)
        await create(await cluster.connect(1), "orders")
        for broker in cluster.running:
            connection = await as_broker(network, broker.id)
            new_id = broker.cluster.topics["orders"].topic_id
            for topic_id in (old_id, new_id, old_id):  # While the new topic has its part, and after.
                stop = StopReplicaPartitionState(leader_epoch=EPOCH_DURING_DELETE, delete_partition=topic_id == old_id)
                order = StopReplicaRequest(
                    controller_epoch=broker.replicas.controller_epoch,
                    broker_epoch=broker.replicas.broker_epoch,
                    topic_states=[
                        StopReplicaTopicState(topic_name="orders", topic_id=topic_id, partition_states=[stop])
                    ],
                )
                answer = await connection.call(order, StopReplicaResponse)
                assert [row.error_code for row in answer.partition_errors] == [ErrorCode.NONE]
                log = broker.logs.get(TopicPartition("orders", 0))
                assert log is not None
                assert log.topic_id == new_id
        await cluster.stop()

    simulate(scenario)


def test_an_order_that_tells_everything_and_comes_again_ends_nothing_that_was_told_since() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = SimulatedCluster(network)
        await cluster.start()
        await create(await cluster.connect(1), "orders")
        for broker in cluster.running:
            connection = await as_broker(network, broker.id)
            part = broker.replicas.find("orders", 0).role.part
            for kind in (LeaderAndIsrRequest, UpdateMetadataRequest):
                order: Any = kind(
                    type=FULL,
                    controller_epoch=broker.replicas.controller_epoch,
                    broker_epoch=broker.replicas.broker_epoch,
                )
                answer = await connection.call(order, order.RESPONSE)
                assert answer.error_code == ErrorCode.NONE
            assert broker.replicas.find("orders", 0).role.part is part
            assert "orders" in broker.cluster.topics
            assert len(broker.cluster.brokers) == 3
        await cluster.stop()

    simulate(scenario)


def test_only_the_controller_answers_what_is_asked_of_it() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = SimulatedCluster(network)
        await cluster.start()
        for broker in cluster.running:
            connection = await as_broker(network, broker.id)
            altered = await connection.call(
                AlterPartitionRequest(broker_id=broker.id, broker_epoch=1), AlterPartitionResponse
            )
            left = await connection.call(
                ControlledShutdownRequest(broker_id=broker.id, broker_epoch=1), ControlledShutdownResponse
            )
            is_controller = broker.controller.is_active
            code = ErrorCode.STALE_BROKER_EPOCH if is_controller else ErrorCode.NOT_CONTROLLER
            assert (altered.error_code, left.error_code) == (code, code)
        await cluster.stop()

    simulate(scenario)
