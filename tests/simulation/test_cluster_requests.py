"""What clients and brokers ask of a cluster through any of its brokers, on virtual time."""

import asyncio
from functools import partial
from typing import Any

import pytest

from millstream.broker.broker import Broker
from millstream.broker.cluster_view import ClusterView
from millstream.broker.handlers.configs import SPREAD_MS
from millstream.broker.lives import Lives
from millstream.client.wire import Connection
from millstream.controller.outbox import NEWS_S
from millstream.model.errors import ErrorCode
from millstream.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from millstream.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from millstream.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from millstream.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from millstream.protocol.messages.fetch import FetchResponse
from millstream.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from millstream.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from millstream.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from millstream.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from millstream.protocol.messages.produce import ProduceResponse
from millstream.registry.configs import change_overrides
from millstream.registry.nodes import BROKER, TOPICS
from tests.simulation.asking import fetch_request, produce, produce_request, simulate
from tests.simulation.brokers import SimulatedCluster, host_of
from tests.simulation.network import SimNetwork
from tests.simulation.test_cluster import create, has_registered_since, knows_brokers, partitions_of


async def started(network: SimNetwork, **settings: str) -> tuple[SimulatedCluster, Broker, Broker]:
    """A cluster, its controller, and another of its brokers."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    cluster = SimulatedCluster(network, settings=named)
    await cluster.start()
    for broker in cluster.running:
        await cluster.until(partial(knows_brokers, broker, 3))
    controller = cluster.controller
    assert controller is not None
    return cluster, controller, next(broker for broker in cluster.running if broker is not controller)


async def alter(connection: Connection, kind: int, name: str, setting: str, value: str) -> None:
    config = AlterableConfig(name=setting, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
    answer = await connection.call(
        IncrementalAlterConfigsRequest(resources=[resource]), IncrementalAlterConfigsResponse
    )
    assert answer.responses[0].error_code == ErrorCode.NONE, answer.responses[0].error_message


def test_topics_are_widened_and_deleted_through_any_broker() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster, _, other = await started(network)
        connection = await cluster.connect(other.id)
        await create(connection, "orders", partitions=2)
        assert {len(broker.cluster.topics["orders"].partitions) for broker in cluster.running} == {2}
        wider = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="orders", count=5)], timeout_ms=10_000)
        widened = await connection.call(wider, CreatePartitionsResponse)
        assert [row.error_code for row in widened.results] == [ErrorCode.NONE]
        assert len(await partitions_of(connection, "orders")) == 5
        assert {len(broker.cluster.topics["orders"].partitions) for broker in cluster.running} == {5}
        gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")], timeout_ms=10_000)
        deleted = await connection.call(gone, DeleteTopicsResponse)
        assert [row.error_code for row in deleted.responses] == [ErrorCode.NONE]
        assert not any("orders" in broker.cluster.topics for broker in cluster.running)
        again = await connection.call(gone, DeleteTopicsResponse)
        assert [row.error_code for row in again.responses] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        await create(connection, "orders", partitions=1)
        old = DeleteTopicsRequest(topic_names=["orders", "none"], timeout_ms=10_000)
        deleted = await connection.call(old, DeleteTopicsResponse, version=3)
        assert {row.name: ErrorCode(row.error_code) for row in deleted.responses} == {
            "orders": ErrorCode.NONE,
            "none": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert not any("orders" in broker.cluster.topics for broker in cluster.running)
        await cluster.stop()

    simulate(scenario)


def test_a_deletion_whose_answer_was_lost_spares_a_topic_that_has_the_name_since() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster, controller, other = await started(network)
        connection, beside = await cluster.connect(other.id), await cluster.connect(controller.id)
        await create(connection, "orders")
        send = other.channels.send
        lost: list[Any] = []

        async def lose_one(broker_id: int, request: Any, **options: Any) -> Any:
            response = await send(broker_id, request, **options)
            if isinstance(request, DeleteTopicsRequest) and not lost:
                lost.append(response)
                await create(beside, "orders")
                raise ConnectionResetError("the answer was lost")
            return response

        other.channels.send = lose_one  # type: ignore[method-assign]
        gone = DeleteTopicsRequest(topic_names=["orders", "none"], timeout_ms=10_000)
        answer = await connection.call(gone, DeleteTopicsResponse, version=3)
        assert {row.name: ErrorCode(row.error_code) for row in answer.responses} == dict.fromkeys(
            ("orders", "none"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        assert len(await partitions_of(connection, "orders")) == 1
        await cluster.stop()

    simulate(scenario)


@pytest.mark.parametrize("dies", [False, True])
def test_a_creation_whose_answer_was_lost_is_known_again_and_no_other(dies: bool) -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster, controller, other = await started(network)
        connection = await cluster.connect(other.id)
        send = other.channels.send
        made: list[CreateTopicsResponse] = []
        lost, seen_to = asyncio.Event(), asyncio.Event()

        async def lose_one(broker_id: int, request: Any, **options: Any) -> Any:
            response = await send(broker_id, request, **options)
            if isinstance(request, CreateTopicsRequest):
                made.append(response)
                if len(made) == 1:
                    lost.set()
                    await seen_to.wait()
                    raise ConnectionResetError("the answer was lost")
            return response

        other.channels.send = lose_one  # type: ignore[method-assign]
        orders = CreateTopicsRequest(
            topics=[CreatableTopic(name="orders", num_partitions=2, replication_factor=3)], timeout_ms=10_000
        )
        asking = asyncio.ensure_future(connection.call(orders, CreateTopicsResponse))
        await lost.wait()
        if dies:
            await cluster.kill(controller.id)
        seen_to.set()
        [told] = (await asking).topics
        assert (ErrorCode(told.error_code), told.num_partitions, told.replication_factor) == (ErrorCode.NONE, 2, 3)
        assert len(made) == 2 and told.topic_id == made[0].topics[0].topic_id
        [refused] = (await connection.call(orders, CreateTopicsResponse)).topics
        assert refused.error_code == ErrorCode.TOPIC_ALREADY_EXISTS, "who asks twice is told"
        await cluster.stop()

    simulate(scenario)


def test_a_topic_is_made_where_it_is_first_asked_for() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster, _, other = await started(network, num_partitions="3", default_replication_factor="2")
        connection = await cluster.connect(other.id)
        request = MetadataRequest(topics=[MetadataRequestTopic(name="orders")], allow_auto_topic_creation=True)
        answer = await connection.call(request, MetadataResponse)
        assert answer.topics[0].error_code == ErrorCode.NONE
        assert [len(row.replica_nodes) for row in answer.topics[0].partitions] == [2, 2, 2]
        await cluster.stop()

    simulate(scenario)


def test_every_broker_names_the_same_coordinator_and_internal_topics_are_replicated() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster, _, _ = await started(network, offsets_topic_num_partitions="6")
        found: dict[str, set[int]] = {}
        for broker_id in cluster.members:
            connection = await cluster.connect(broker_id)
            keys = [f"group-{at}" for at in range(12)]
            answer = await connection.call(FindCoordinatorRequest(coordinator_keys=keys), FindCoordinatorResponse)
            for row in answer.coordinators:
                assert row.error_code == ErrorCode.NONE
                found.setdefault(row.key, set()).add(row.node_id)
        assert all(len(nodes) == 1 for nodes in found.values())
        assert {node for nodes in found.values() for node in nodes} == {1, 2, 3}
        rows = await partitions_of(await cluster.connect(1), "__consumer_offsets")
        assert all(len(row.replica_nodes) == 3 for row in rows.values())
        await cluster.stop()

    simulate(scenario)


def test_internal_topics_wait_for_as_many_brokers_as_somebody_asked_for() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = SimulatedCluster(network, settings={"offsets.topic.replication.factor": "3"})
        await cluster.start(1, 2)
        connection = await cluster.connect(1)
        request = FindCoordinatorRequest(coordinator_keys=["group"])
        answer = await connection.call(request, FindCoordinatorResponse)
        assert answer.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await cluster.start(3)
        answer = await connection.call(request, FindCoordinatorResponse)
        assert answer.coordinators[0].error_code == ErrorCode.NONE
        await cluster.stop()

    simulate(scenario)


def test_a_broker_that_cannot_be_told_is_not_waited_for_long() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster, controller, other = await started(network)
        deaf = next(broker for broker in cluster.running if broker not in (controller, other))
        for speaker in (controller, other):
            network.cut(host_of(speaker.id), host_of(deaf.id))
        loop = asyncio.get_running_loop()
        connection = await cluster.connect(other.id)
        began_s = loop.time()
        await create(connection, "orders")
        assert loop.time() - began_s < 2 * NEWS_S
        assert "orders" in controller.cluster.topics and "orders" in other.cluster.topics
        assert "orders" not in deaf.cluster.topics
        began_s = loop.time()
        await alter(connection, 2, "orders", "retention.ms", "12345")
        assert loop.time() - began_s < 2 * SPREAD_MS / 1000
        network.heal()
        await cluster.until(lambda: "orders" in deaf.cluster.topics)
        assert deaf.settings.topic_config("orders").retention_ms == 12345
        await cluster.stop()

    simulate(scenario)


def test_a_setting_changed_through_one_broker_holds_on_all() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster, _, other = await started(network)
        connection = await cluster.connect(other.id)
        await create(connection, "orders")
        await alter(connection, 2, "orders", "retention.ms", "12345")
        await alter(connection, 4, "", "log.retention.ms", "54321")
        assert all(map(obeys, cluster.running))
        await cluster.stop()

    def obeys(broker: Broker) -> bool:
        return (
            broker.settings.topic_config("orders").retention_ms,
            broker.settings.topic_config("another").retention_ms,
        ) == (12345, 54321)

    simulate(scenario)


def test_a_setting_changed_while_a_broker_starts_does_not_keep_it_from_hearing_of_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster, _, other = await started(network)
        await create(await cluster.connect(other.id), "orders")
        await cluster.stop(other.id)
        registry, last = cluster.tree.session(), Lives.last

        async def change_meanwhile(lives: Lives) -> int | None:
            await change_overrides(registry, TOPICS, "orders", lambda before: {"retention.ms": "12345"})
            await asyncio.sleep(1)
            return await last(lives)

        monkeypatch.setattr(Lives, "last", change_meanwhile)
        await cluster.start(other.id)
        await change_overrides(registry, TOPICS, "orders", lambda before: {"retention.ms": "54321"})
        await asyncio.sleep(1)
        log = cluster.broker(other.id).replicas.find("orders", 0).log
        assert log is not None
        assert log.config.retention_ms == 54321
        await cluster.stop()

    simulate(scenario)


def test_a_group_without_a_name_is_refused_by_every_broker() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster, _, _ = await started(network)
        for broker in cluster.running:
            connection = await cluster.connect(broker.id)
            beaten = await connection.call(HeartbeatRequest(), HeartbeatResponse)
            assert beaten.error_code == ErrorCode.INVALID_GROUP_ID
            modern = await connection.call(ConsumerGroupHeartbeatRequest(), ConsumerGroupHeartbeatResponse)
            assert modern.error_code == ErrorCode.INVALID_REQUEST
        await cluster.stop()

    simulate(scenario)


def test_whoever_comes_to_the_wrong_leader_is_told_who_leads_and_where() -> None:
    """KIP-951: from these versions on, an answer names the leader, so that the client need not ask."""

    async def scenario(network: SimNetwork) -> None:
        cluster, _, other = await started(network)
        connection = await cluster.connect(other.id)
        await create(connection, "orders", partitions=3)
        rows = await partitions_of(connection, "orders")
        index, leader = next((at, row) for at, row in rows.items() if row.leader_id != other.id)
        topic_id = other.cluster.topics["orders"].topic_id
        request = produce_request("orders", b"astray", partition=index)
        request.topic_data[0].topic_id = topic_id
        produced = await connection.call(request, ProduceResponse, version=13)
        row = produced.responses[0].partition_responses[0]
        assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and row.current_leader is not None
        told = (row.current_leader.leader_id, row.current_leader.leader_epoch)
        assert told == (leader.leader_id, leader.leader_epoch)
        expected = [(leader.leader_id, f"broker-{leader.leader_id}", 9092)]
        assert [(each.node_id, each.host, each.port) for each in produced.node_endpoints] == expected
        await cluster.stop(leader.leader_id)
        survivor = next(broker for broker in cluster.running if broker is not other)
        connection = await cluster.connect(survivor.id)
        now = (await partitions_of(connection, "orders"))[index].leader_id
        connection = await cluster.connect(now)
        asked = fetch_request("orders", 0, partition=index)
        asked.topics[0].topic_id = topic_id
        asked.topics[0].partitions[0].current_leader_epoch = leader.leader_epoch
        fetched = await connection.call(asked, FetchResponse, version=16)
        assert fetched.responses[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert [(each.node_id, each.host, each.port) for each in fetched.node_endpoints] == [
            (now, f"broker-{now}", 9092)
        ]
        await cluster.stop()

    simulate(scenario)


def test_a_broker_whose_node_was_deleted_registers_anew() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster, _, other = await started(network)
        epoch = other.replicas.broker_epoch
        await cluster.tree.session().delete(BROKER.path(other.id))
        await cluster.until(partial(has_registered_since, other, epoch), timeout_s=1)
        for broker in cluster.running:
            await cluster.until(partial(knows_brokers, broker, 3), timeout_s=1)
        await cluster.stop()

    simulate(scenario)


def test_fault_9_registering_anew_is_tried_until_it_succeeds() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster, _, other = await started(network)
        await create(await cluster.connect(other.id), "orders", partitions=6)
        epoch = other.replicas.broker_epoch
        session = cluster.members[other.id].session
        session.is_failing = True
        cluster.expire(other.id)
        await asyncio.sleep(20)
        assert other.replicas.broker_epoch == epoch
        assert all(other.id not in broker.cluster.brokers for broker in cluster.running if broker is not other)
        session.is_failing = False
        await cluster.until(partial(has_registered_since, other, epoch), timeout_s=5)
        for broker in cluster.running:
            await cluster.until(partial(knows_brokers, broker, 3), timeout_s=1)
        rows = await partitions_of(await cluster.connect(other.id), "orders")
        assert all(row.offline_replicas == [] for row in rows.values())
        await cluster.stop()

    simulate(scenario)


def test_others_lead_what_lies_in_a_directory_that_failed() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster, controller, other = await started(network, log_dirs="/data/a,/data/b")
        connection = await cluster.connect(other.id)
        await create(connection, "orders", partitions=12)
        led = [index for index, row in (await partitions_of(connection, "orders")).items() if row.leader_id == other.id]
        lost = next(index for index in led if directory_of(other, index) == "/data/b")
        cluster.members[other.id].files.fail("*", path="/data/b*")
        await produce(connection, "orders", b"lost", partition=lost)
        await cluster.until(lambda: offline(controller.cluster, other.id), timeout_s=5)
        rows = await partitions_of(await cluster.connect(controller.id), "orders")
        for index, row in rows.items():
            is_lost = directory_of(other, index) == "/data/b"
            assert row.leader_id != -1 and row.offline_replicas == ([other.id] if is_lost else [])
            assert not is_lost or row.leader_id != other.id
        await cluster.stop()

    def directory_of(broker: Broker, index: int) -> str:
        log = broker.replicas.find("orders", index).log
        assert log is not None
        return log.directory.path

    def offline(view: ClusterView, broker_id: int) -> bool:
        return any(broker_id in state.offline_replicas for state in view.topics["orders"].partitions.values())

    simulate(scenario)
