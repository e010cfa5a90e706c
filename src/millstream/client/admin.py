"""What administrators ask of a cluster, a function each; a refusal of one topic among several is a row."""

import asyncio
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from millstream.client.cluster import Cluster, Topic, check, check_partition, error_of
from millstream.client.wire import Connection
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from millstream.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from millstream.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from millstream.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from millstream.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from millstream.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from millstream.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from millstream.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from millstream.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

#: "As the broker's settings say."
BROKER_DEFAULT = -1


class Resource(IntEnum):
    """What a setting belongs to, by Kafka's numbers."""

    TOPIC = 2
    BROKER = 4


class Operation(IntEnum):
    """What to do to a setting, by Kafka's numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


#: Where a setting's value comes from, by Kafka's numbers.
SOURCES = {
    1: "topic",
    2: "dynamic broker",
    3: "dynamic default",
    4: "static broker",
    5: "default",
    6: "dynamic logger",
}


class Outcome(NamedTuple):
    """How it went for one topic."""

    name: str
    code: ErrorCode
    detail: str = ""

    def raise_if_refused(self) -> None:
        if self.code:
            raise ProtocolError(self.code, self.detail)


class SettingValue(NamedTuple):
    """A setting as a broker reports it; the value of a sensitive one is None."""

    name: str
    value: str | None
    source: str
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None


class NewTopic(NamedTuple):
    """A topic to be made; ``assignment`` gives each partition's brokers and replaces the two counts."""

    name: str
    partitions: int = BROKER_DEFAULT
    replicas: int = BROKER_DEFAULT
    settings: Mapping[str, str] = {}
    assignment: Mapping[int, Sequence[int]] = {}


class Change(NamedTuple):
    """A change of one setting; ``value`` is None to take it back to its default."""

    name: str
    operation: Operation
    value: str | None = None


async def create_topics(cluster: Cluster, topics: Sequence[NewTopic], *, validate_only: bool = False) -> list[Outcome]:
    """Make topics, or only ask whether they could be made."""
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=topic.name,
                num_partitions=-1 if topic.assignment else topic.partitions,
                replication_factor=-1 if topic.assignment else topic.replicas,
                assignments=[
                    CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
                    for index, brokers in topic.assignment.items()
                ],
                configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.settings.items()],
            )
            for topic in topics
        ],
        timeout_ms=_timeout_ms(cluster),
        validate_only=validate_only,
    )
    answer = await cluster.ask_controller(
        request, CreateTopicsResponse, lambda answer: [row.error_code for row in answer.topics]
    )
    cluster.forget(topic.name for topic in topics)
    return [Outcome(row.name, error_of(row.error_code), row.error_message or "") for row in answer.topics]


async def delete_topics(cluster: Cluster, names: Sequence[str]) -> list[Outcome]:
    """Delete topics by name; an outcome for each."""
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in names],
        topic_names=list(names),
        timeout_ms=_timeout_ms(cluster),
    )
    answer = await cluster.ask_controller(
        request, DeleteTopicsResponse, lambda answer: [row.error_code for row in answer.responses]
    )
    cluster.forget(names)
    return [Outcome(row.name or "", error_of(row.error_code), row.error_message or "") for row in answer.responses]


async def create_partitions(
    cluster: Cluster, totals: Mapping[str, int], *, validate_only: bool = False
) -> list[Outcome]:
    """Let each topic have so many partitions in all."""
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=total, assignments=None) for name, total in totals.items()],
        timeout_ms=_timeout_ms(cluster),
        validate_only=validate_only,
    )
    answer = await cluster.ask_controller(
        request, CreatePartitionsResponse, lambda answer: [row.error_code for row in answer.results]
    )
    cluster.forget(totals)
    return [Outcome(row.name, error_of(row.error_code), row.error_message or "") for row in answer.results]


async def describe_configs(
    cluster: Cluster, resource: Resource, name: str, *, documentation: bool = False
) -> list[SettingValue]:
    """Every setting of a topic or broker, by name; ProtocolError when there is no such thing."""
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=int(resource), resource_name=name, configuration_keys=None)],
        include_synonyms=False,
        include_documentation=documentation,
    )
    connection = await _home_of(cluster, resource, name)
    answer = await connection.call(request, DescribeConfigsResponse, timeout_s=cluster.timeout_s)
    row = answer.results[0]
    check(row.error_code, row.error_message)
    return sorted(
        SettingValue(
            name=setting.name,
            value=setting.value,
            source=SOURCES.get(setting.config_source, "unknown"),
            is_read_only=setting.read_only,
            is_sensitive=setting.is_sensitive,
            documentation=setting.documentation,
        )
        for setting in row.configs
    )


async def alter_configs(
    cluster: Cluster, resource: Resource, name: str, changes: Sequence[Change], *, validate_only: bool = False
) -> None:
    """Change some settings of a topic or broker and leave its others as they are."""
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=int(resource),
                resource_name=name,
                configs=[
                    AlterableConfig(name=change.name, config_operation=int(change.operation), value=change.value)
                    for change in changes
                ],
            )
        ],
        validate_only=validate_only,
    )
    connection = await _home_of(cluster, resource, name)
    answer = await connection.call(request, IncrementalAlterConfigsResponse, timeout_s=cluster.timeout_s)
    for row in answer.responses:
        check(row.error_code, row.error_message)


async def delete_records(cluster: Cluster, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Delete what lies before an offset (-1: everything) in each partition, and return where each now starts."""
    from millstream.client.partitions import by_leader

    async def attempt() -> dict[TopicPartition, int]:
        starts: dict[TopicPartition, int] = {}
        for connection, partitions in (await by_leader(cluster, before)).items():
            request = _delete_records_request(partitions, before, _timeout_ms(cluster))
            answer = await connection.call(request, DeleteRecordsResponse, timeout_s=cluster.timeout_s)
            for topic in answer.topics:
                for row in topic.partitions:
                    tp = TopicPartition(topic.name, row.partition_index)
                    check_partition(row.error_code, f"partition {tp}")
                    starts[tp] = row.low_watermark
        return starts

    return await cluster.retrying({tp.topic for tp in before}, attempt)


async def acting_controller(cluster: Cluster) -> int | None:
    """The broker that decides now, as far as the one that is asked can tell; None for nobody."""
    answer = await cluster.ask(DescribeClusterRequest(), DescribeClusterResponse)
    check(answer.error_code, answer.error_message)
    return answer.controller_id if answer.controller_id >= 0 else None


async def partition_sizes(cluster: Cluster) -> dict[TopicPartition, int]:
    """Bytes on disk of every partition, at its largest replica."""
    if not cluster.brokers:
        await cluster.refresh([])
    connections = [await cluster.broker(node_id) for node_id in cluster.brokers]
    answers = await asyncio.gather(
        *(
            connection.call(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, timeout_s=cluster.timeout_s)
            for connection in connections
        )
    )
    sizes: dict[TopicPartition, int] = {}
    for answer in answers:
        for folder in answer.results:
            for topic in folder.topics:
                for row in topic.partitions:
                    tp = TopicPartition(topic.name, row.partition_index)
                    sizes[tp] = max(sizes.get(tp, 0), row.partition_size)
    return sizes


async def replica_lags(cluster: Cluster, topic: Topic) -> dict[tuple[int, int], int]:
    """How many records each replica that follows still has to copy, as it knows; by partition and broker.

    Brokers that do not answer are left out.
    """
    holders = sorted({replica for part in topic.partitions for replica in part.replicas} & cluster.brokers.keys())
    wanted = DescribableLogDirTopic(topic=topic.name, partitions=[part.index for part in topic.partitions])
    request = DescribeLogDirsRequest(topics=[wanted])

    async def ask(node_id: int) -> DescribeLogDirsResponse:
        connection = await cluster.broker(node_id)
        return await connection.call(request, DescribeLogDirsResponse, timeout_s=cluster.timeout_s)

    answers = await asyncio.gather(*map(ask, holders), return_exceptions=True)
    return {
        (row.partition_index, node_id): row.offset_lag
        for node_id, answer in zip(holders, answers, strict=True)
        if isinstance(answer, DescribeLogDirsResponse)
        for folder in answer.results
        for described in folder.topics
        for row in described.partitions
    }


async def eligible_leaders(cluster: Cluster, topic: Topic) -> dict[int, list[int]]:
    """Of each partition, the replicas out of sync that may lead all the same; none where brokers do not tell."""
    found: dict[int, list[int]] = {}
    cursor: Cursor | None = None
    while True:
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=topic.name)], cursor=cursor)
        try:
            answer = await cluster.ask(request, DescribeTopicPartitionsResponse)
        except ProtocolError as error:
            if error.code is not ErrorCode.UNSUPPORTED_VERSION:
                raise
            return {}
        for row in (row for each in answer.topics for row in each.partitions):
            found[row.partition_index] = list(row.eligible_leader_replicas or ())
        cursor = answer.next_cursor
        if cursor is None:
            return found


def _delete_records_request(
    partitions: Sequence[TopicPartition], before: Mapping[TopicPartition, int], timeout_ms: int
) -> DeleteRecordsRequest:
    names = dict.fromkeys(tp.topic for tp in partitions)
    return DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(
                name=name,
                partitions=[
                    DeleteRecordsPartition(partition_index=tp.partition, offset=before[tp])
                    for tp in partitions
                    if tp.topic == name
                ],
            )
            for name in names
        ],
        timeout_ms=timeout_ms,
    )


async def _home_of(cluster: Cluster, resource: Resource, name: str) -> Connection:
    """A broker answers for its own settings; for anything else any broker will do."""
    if resource is not Resource.BROKER or not name:
        return await cluster.any_broker()
    if not cluster.brokers:
        await cluster.refresh([])
    if not name.isdigit() or int(name) not in cluster.brokers:
        known = ", ".join(map(str, sorted(cluster.brokers)))
        raise ProtocolError(ErrorCode.BROKER_NOT_AVAILABLE, f"there is no broker {name!r}, only {known}")
    return await cluster.broker(int(name))


def _timeout_ms(cluster: Cluster) -> int:
    return int(cluster.timeout_s * 1000)
