"""When nothing can be done at all, every row of the answer says why, and the connection stays."""

from collections.abc import Coroutine
from typing import Any

import pytest

from millstream.client.wire import Connection
from millstream.model.errors import ErrorCode
from millstream.protocol.messages import alter_configs, incremental_alter_configs
from millstream.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from millstream.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from millstream.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from millstream.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from millstream.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.simulation.asking import create, simulate
from tests.simulation.failing_registry import BrokerOnFailingRegistry
from tests.simulation.network import SimNetwork

TOPIC = 2

Rows = list[tuple[str | None, int]]


async def create_two(connection: Connection) -> Rows:
    asked = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("one", "two")]
    answer = await connection.call(CreateTopicsRequest(topics=asked), CreateTopicsResponse)
    return [(row.name, row.error_code) for row in answer.topics]


async def delete_two(connection: Connection) -> Rows:
    asked = [DeleteTopicState(name=name, topic_id=bytes(16)) for name in ("one", "two")]
    answer = await connection.call(DeleteTopicsRequest(topics=asked), DeleteTopicsResponse)
    return [(row.name, row.error_code) for row in answer.responses]


async def widen_two(connection: Connection) -> Rows:
    asked = [CreatePartitionsTopic(name=name, count=3, assignments=None) for name in ("one", "two")]
    answer = await connection.call(CreatePartitionsRequest(topics=asked), CreatePartitionsResponse)
    return [(row.name, row.error_code) for row in answer.results]


async def alter_two(connection: Connection) -> Rows:
    asked = [
        alter_configs.AlterConfigsResource(
            resource_type=TOPIC,
            resource_name=name,
            configs=[alter_configs.AlterableConfig(name="retention.ms", value="5")],
        )
        for name in ("one", "two")
    ]
    answer = await connection.call(
        alter_configs.AlterConfigsRequest(resources=asked), alter_configs.AlterConfigsResponse
    )
    return [(row.resource_name, row.error_code) for row in answer.responses]


async def alter_two_by_steps(connection: Connection) -> Rows:
    asked = [
        incremental_alter_configs.AlterConfigsResource(
            resource_type=TOPIC,
            resource_name=name,
            configs=[incremental_alter_configs.AlterableConfig(name="retention.ms", config_operation=0, value="5")],
        )
        for name in ("one", "two")
    ]
    answer = await connection.call(
        incremental_alter_configs.IncrementalAlterConfigsRequest(resources=asked),
        incremental_alter_configs.IncrementalAlterConfigsResponse,
    )
    return [(row.resource_name, row.error_code) for row in answer.responses]


async def ask_for_two(connection: Connection) -> Rows:
    asked = [MetadataRequestTopic(name=name) for name in ("three", "four")]
    answer = await connection.call(MetadataRequest(topics=asked), MetadataResponse, version=9)
    return [(row.name, row.error_code) for row in answer.topics]


async def failing(network: SimNetwork) -> tuple[BrokerOnFailingRegistry, Connection]:
    """A broker with two topics, whose registry can no longer write."""
    machine = BrokerOnFailingRegistry(network)
    await machine.start()
    connection = await machine.connect()
    await create(connection, "one")
    await create(connection, "two")
    machine.registry.is_failing = True
    return machine, connection


@pytest.mark.parametrize("ask", [delete_two, widen_two, alter_two, alter_two_by_steps])
def test_a_registry_that_cannot_write_is_told_in_every_row(ask: Any) -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, connection = await failing(network)
        rows = await ask(connection)
        assert [name for name, _ in rows] == ["one", "two"]
        # The first refusal may have cost the controller its office.
        assert {code for _, code in rows} <= {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_CONTROLLER}
        assert rows[0][1] == ErrorCode.KAFKA_STORAGE_ERROR
        machine.registry.is_failing = False
        await machine.stop()

    simulate(scenario)


def test_a_topic_that_cannot_be_made_is_told_in_its_row() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine = BrokerOnFailingRegistry(network)
        await machine.start()
        connection = await machine.connect()
        machine.registry.is_failing = True
        for ask in (create_two, ask_for_two):
            rows = await ask(connection)
            assert len(rows) == 2
            assert {code for _, code in rows} <= {
                ErrorCode.KAFKA_STORAGE_ERROR,
                ErrorCode.NOT_CONTROLLER,
                ErrorCode.LEADER_NOT_AVAILABLE,  # In Metadata: the client asks again.
            }
        machine.registry.is_failing = False
        await machine.stop()

    simulate(scenario)


@pytest.mark.parametrize("ask", [create_two, delete_two, widen_two, ask_for_two])
def test_a_broker_that_is_not_the_controller_says_so_in_every_row(ask: Any) -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, connection = await failing(network)
        assert machine.broker is not None
        machine.registry.is_failing = False
        await machine.broker.controller.close()
        rows = await ask(connection)
        code = ErrorCode.LEADER_NOT_AVAILABLE if ask is ask_for_two else ErrorCode.NOT_CONTROLLER
        assert [found for _, found in rows] == [code] * 2
        await machine.stop()

    simulate(scenario)


def test_a_producer_that_gets_no_id_may_ask_again() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, connection = await failing(network)

        def ask() -> Coroutine[Any, Any, InitProducerIdResponse]:
            return connection.call(InitProducerIdRequest(transaction_timeout_ms=0), InitProducerIdResponse, version=5)

        refused = await ask()
        assert (refused.error_code, refused.producer_id) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1)
        machine.registry.is_failing = False
        assert (await ask()).error_code == ErrorCode.NONE
        await machine.stop()

    simulate(scenario)
