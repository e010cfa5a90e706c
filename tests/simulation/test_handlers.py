"""What handlers refuse, and in which words of Kafka's."""

import asyncio

from millstream.client.wire import Connection
from millstream.model.errors import ErrorCode
from millstream.model.ids import ZERO_UUID, Uuid
from millstream.protocol.messages import alter_configs
from millstream.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from millstream.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from millstream.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from millstream.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from millstream.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from millstream.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.simulation.asking import create, produce, simulate
from tests.simulation.broker import SimBroker
from tests.simulation.loop import EPOCH_MS
from tests.simulation.network import SimNetwork

TOPIC = 2
BROKER = 4


async def started(network: SimNetwork) -> tuple[SimBroker, Connection]:
    machine = SimBroker(network)
    await machine.start()
    return machine, await machine.connect()


async def metadata(connection: Connection, *topics: MetadataRequestTopic, version: int) -> list[tuple[int, str | None]]:
    answer = await connection.call(MetadataRequest(topics=list(topics)), MetadataResponse, version=version)
    return [(row.error_code, row.name) for row in answer.topics]


def test_before_version_12_metadata_is_asked_for_by_name_alone() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, connection = await started(network)
        await create(connection, "orders")
        nameless = MetadataRequestTopic(name=None, topic_id=ZERO_UUID)
        for version in (10, 11):
            rows = await metadata(connection, nameless, MetadataRequestTopic(name="orders"), version=version)
            assert rows == [(ErrorCode.INVALID_REQUEST, ""), (ErrorCode.INVALID_REQUEST, "orders")]
            rows = await metadata(connection, MetadataRequestTopic(name=None, topic_id=b"x" * 16), version=version)
            assert rows == [(ErrorCode.INVALID_REQUEST, "")]
        assert await metadata(connection, nameless, version=12) == [(ErrorCode.UNKNOWN_TOPIC_ID, None)]
        assert await metadata(connection, MetadataRequestTopic(name="orders"), version=11) == [(0, "orders")]
        await machine.stop()

    simulate(scenario)


def test_internal_topics_are_not_made_by_asking_for_them() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, connection = await started(network)
        for name in ("__consumer_offsets", "__transaction_state"):
            rows = await metadata(connection, MetadataRequestTopic(name=name), version=9)
            assert rows == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)]
        await machine.stop()

    simulate(scenario)


async def delete(connection: Connection, *topics: str | Uuid) -> list[tuple[str | None, int]]:
    asked = [
        DeleteTopicState(name=topic, topic_id=ZERO_UUID)
        if isinstance(topic, str)
        else DeleteTopicState(name=None, topic_id=topic)
        for topic in topics
    ]
    answer = await connection.call(DeleteTopicsRequest(topics=asked, timeout_ms=1000), DeleteTopicsResponse)
    return [(row.name, row.error_code) for row in answer.responses]


def test_a_topic_named_twice_is_not_deleted() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, connection = await started(network)
        assert machine.broker is not None
        for name in ("orders", "other"):
            await create(connection, name)
        topic_id = machine.broker.cluster.topics["orders"].topic_id
        refused = ErrorCode.INVALID_REQUEST
        assert await delete(connection, "orders", "orders") == [("orders", refused), ("orders", refused)]
        assert await delete(connection, "orders", topic_id) == [("orders", refused), (None, refused)]
        assert await delete(connection, topic_id, topic_id, "other") == [(None, refused), (None, refused), ("other", 0)]
        assert list(machine.broker.cluster.topics) == ["orders"]
        assert await delete(connection, topic_id) == [("orders", ErrorCode.NONE)]
        await machine.stop()

    simulate(scenario)


def test_a_topic_is_deleted_either_by_name_or_by_id() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, connection = await started(network)
        asked = [
            DeleteTopicState(name=None, topic_id=ZERO_UUID),
            DeleteTopicState(name="orders", topic_id=b"x" * 16),
        ]
        answer = await connection.call(DeleteTopicsRequest(topics=asked), DeleteTopicsResponse)
        assert [row.error_code for row in answer.responses] == [ErrorCode.INVALID_REQUEST] * 2
        await machine.stop()

    simulate(scenario)


def test_a_partition_assigned_twice_is_refused() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, connection = await started(network)
        rows = [CreatableReplicaAssignment(partition_index=0, broker_ids=[0]) for _ in range(2)]
        topic = CreatableTopic(name="orders", num_partitions=-1, replication_factor=-1, assignments=rows)
        answer = await connection.call(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)
        assert answer.topics[0].error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        await machine.stop()

    simulate(scenario)


async def offset(connection: Connection, timestamp: int, version: int) -> tuple[int, int]:
    row = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="orders", partitions=[row])])
    answer = await connection.call(request, ListOffsetsResponse, version=version)
    found = answer.topics[0].partitions[0]
    return found.error_code, found.offset


def test_each_special_timestamp_is_known_from_its_version_on() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, connection = await started(network)
        await create(connection, "orders")
        await produce(connection, "orders", b"one")
        for timestamp, version, expected in ((-1, 1, 1), (-2, 1, 0), (-3, 7, 0), (-4, 8, 0), (-5, 9, -1), (-6, 11, -1)):
            assert await offset(connection, timestamp, version) == (ErrorCode.NONE, expected)
            if version > 1:
                assert (await offset(connection, timestamp, version - 1))[0] == ErrorCode.UNSUPPORTED_VERSION
        assert (await offset(connection, -7, 11))[0] == ErrorCode.UNSUPPORTED_VERSION
        await machine.stop()

    simulate(scenario)


def test_a_page_holds_at_least_one_partition() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, connection = await started(network)
        await create(connection, "orders", partitions=3)
        for limit in (0, -5, 1):
            request = DescribeTopicPartitionsRequest(
                topics=[TopicRequest(name="orders")], response_partition_limit=limit
            )
            answer = await connection.call(request, DescribeTopicPartitionsResponse)
            assert [row.partition_index for row in answer.topics[0].partitions] == [0]
            assert answer.next_cursor is not None and answer.next_cursor.partition_index == 1
        await machine.stop()

    simulate(scenario)


async def alter(connection: Connection, kind: int, name: str, **values: str | None) -> int:
    resource = alter_configs.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            alter_configs.AlterableConfig(name=key.replace("_", "."), value=value) for key, value in values.items()
        ],
    )
    request = alter_configs.AlterConfigsRequest(resources=[resource])
    answer = await connection.call(request, alter_configs.AlterConfigsResponse)
    return answer.responses[0].error_code


def test_a_setting_is_not_replaced_by_nothing() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, connection = await started(network)
        await create(connection, "orders", retention_ms="5")
        assert await alter(connection, TOPIC, "orders", retention_ms=None) == ErrorCode.INVALID_REQUEST
        assert machine.broker is not None
        assert machine.broker.settings.topic_overrides("orders") == {"retention.ms": "5"}
        await machine.stop()

    simulate(scenario)


def test_the_cluster_wide_default_is_shown_without_what_this_broker_has_of_its_own() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, connection = await started(network)
        assert await alter(connection, BROKER, "", message_max_bytes="1000") == ErrorCode.NONE
        assert await alter(connection, BROKER, "0", message_max_bytes="2000", log_retention_ms="9") == ErrorCode.NONE
        request = DescribeConfigsRequest(
            resources=[DescribeConfigsResource(resource_type=BROKER, resource_name="", configuration_keys=None)],
            include_synonyms=True,
        )
        answer = await connection.call(request, DescribeConfigsResponse)
        (row,) = answer.results[0].configs
        assert (row.name, row.value) == ("message.max.bytes", "1000")
        assert [synonym.value for synonym in row.synonyms] == ["1000"]
        await machine.stop()

    simulate(scenario)


def test_a_deleted_topics_settings_are_forgotten() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, connection = await started(network)
        assert machine.broker is not None
        settings = machine.broker.settings
        await create(connection, "orders", retention_ms="5")
        assert settings.topic_config("orders").retention_ms == 5
        assert await delete(connection, "orders") == [("orders", ErrorCode.NONE)]
        assert settings.topic_overrides("orders") == {}
        assert settings.topic_config("orders").retention_ms == 604_800_000
        await create(connection, "orders", retention_ms="6")
        assert settings.topic_config("orders").retention_ms == 6
        await machine.stop()

    simulate(scenario)


def test_a_record_is_found_by_its_time_while_others_are_served() -> None:
    """Decoding a large batch is the work of a thread, and the loop goes on meanwhile."""

    async def scenario(network: SimNetwork) -> None:
        machine = SimBroker(network, delay_ms_max=50)
        await machine.start()
        connection, other = await machine.connect(), await machine.connect()
        await create(connection, "orders")
        await produce(connection, "orders", *[b"x" * 1000] * 20)
        searching = asyncio.create_task(offset(connection, EPOCH_MS, 5))
        assert await offset(other, -1, 5) == (ErrorCode.NONE, 20)
        assert not searching.done()
        assert await searching == (ErrorCode.NONE, 0)
        await machine.stop()

    simulate(scenario)
