"""Metadata (API 3), DescribeTopicPartitions (API 75) and DescribeCluster (API 60): who is where."""

from collections.abc import Iterator

from millstream.broker.broker import Broker
from millstream.broker.cluster_view import Topic
from millstream.broker.connection import Call
from millstream.broker.forwarding import make_topic
from millstream.broker.refusals import REFUSALS, refusal
from millstream.controller.interface import DEFAULT
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import INTERNAL_TOPICS, ZERO_UUID, Uuid, topic_name_fault
from millstream.protocol.messages.create_topics import CreatableTopic
from millstream.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from millstream.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from millstream.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from millstream.protocol.messages.update_metadata import UpdateMetadataPartitionState
from millstream.registry.nodes import PARTITION_STATE
from millstream.registry.tree import RegistryError

NO_LEADER = -1
NO_CONTROLLER = -1
BROKERS = 1
#: What anyone may do while nothing is restricted: bit n stands for Kafka's operation n.
CLUSTER_OPERATIONS = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))
TOPIC_OPERATIONS = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
NOT_ASKED = -(2**31)
#: Before this version topics are asked for by name alone, and a row of the answer must have one.
IDS_FROM_VERSION = 12


async def metadata(broker: Broker, request: MetadataRequest, call: Call) -> MetadataResponse:
    """The topics asked for, made first where that is allowed; all of them where none is named."""
    view, listener = broker.cluster, call.connection.listener
    await broker.detection.settle()
    if request.topics is None or (call.version == 0 and not request.topics):
        rows = [_topic(topic) for topic in view.topics.values()]
    elif call.version < IDS_FROM_VERSION and any(
        wanted.name is None or wanted.topic_id != ZERO_UUID for wanted in request.topics
    ):
        rows = [
            MetadataResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST, name=wanted.name or "", topic_id=wanted.topic_id
            )
            for wanted in request.topics
        ]
    else:
        rows = []
        for wanted in request.topics:
            rows.append(await _wanted(broker, wanted.name, wanted.topic_id, request.allow_auto_topic_creation))
    if request.include_topic_authorized_operations:
        for row in rows:
            row.topic_authorized_operations = NOT_ASKED if row.error_code else TOPIC_OPERATIONS
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=each.broker_id, host=each.host, port=each.port, rack=each.rack)
            for each in view.endpoints(listener) + broker.detection.remembered(listener)
        ],
        cluster_id=view.cluster_id,
        controller_id=view.controller_id,
        topics=rows,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )


async def _wanted(broker: Broker, name: str | None, topic_id: Uuid, may_create: bool) -> MetadataResponseTopic:
    if name is None or topic_id != ZERO_UUID:
        name = broker.cluster.name_of(topic_id)
        if name is None:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
    topic = broker.cluster.topics.get(name)
    if topic is not None:
        return _topic(topic)
    if topic_name_fault(name) is not None:
        return MetadataResponseTopic(error_code=ErrorCode.INVALID_TOPIC_EXCEPTION, name=name)
    if not (may_create and broker.auto_creates_topics) or name in INTERNAL_TOPICS:
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name)
    try:
        made = await make_topic(broker, CreatableTopic(name=name, num_partitions=DEFAULT, replication_factor=DEFAULT))
    except REFUSALS as error:
        # A controller that is not found, or does not answer, is found or answers later: the client asks again.
        code = refusal(error).code
        is_passing = code in (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)
        return MetadataResponseTopic(error_code=ErrorCode.LEADER_NOT_AVAILABLE if is_passing else code, name=name)
    topic = broker.cluster.topics.get(name)
    if topic is not None:
        return _topic(topic)
    is_to_come = made.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    return MetadataResponseTopic(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if is_to_come else made.error_code, name=name
    )


def _topic(topic: Topic) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            MetadataResponsePartition(
                error_code=_leader_error(state),
                partition_index=index,
                leader_id=state.leader,
                leader_epoch=state.leader_epoch,
                replica_nodes=state.replicas,
                isr_nodes=state.isr,
                offline_replicas=state.offline_replicas,
            )
            for index, state in topic.partitions.items()
        ],
    )


def _leader_error(state: UpdateMetadataPartitionState) -> ErrorCode:
    return ErrorCode.LEADER_NOT_AVAILABLE if state.leader == NO_LEADER else ErrorCode.NONE


async def topic_partitions(
    broker: Broker, request: DescribeTopicPartitionsRequest, call: Call
) -> DescribeTopicPartitionsResponse:
    """Topics by name in order, a page of partitions at a time; the cursor says where the next page starts."""
    cursor = request.cursor
    names = sorted({topic.name for topic in request.topics} or broker.cluster.topics)
    first_index = 0
    if cursor is not None:
        if cursor.partition_index < 0:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, "a cursor's partition cannot be negative")
        names = [name for name in names if name >= cursor.topic_name]
        first_index = cursor.partition_index if names and names[0] == cursor.topic_name else 0
    left = max(1, min(request.response_partition_limit, broker.partitions_per_page_max))
    answer = DescribeTopicPartitionsResponse()
    for name in names:
        topic = broker.cluster.topics.get(name)
        if topic is None:
            answer.topics.append(_unknown(name))
            continue
        if left <= 0:
            answer.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        rows = list(_described(topic, first_index))
        first_index = 0
        answer.topics.append(
            DescribeTopicPartitionsResponseTopic(
                name=name,
                topic_id=topic.topic_id,
                is_internal=topic.is_internal,
                partitions=rows[:left],
                topic_authorized_operations=TOPIC_OPERATIONS,
            )
        )
        if len(rows) > left:
            answer.next_cursor = Cursor(topic_name=name, partition_index=rows[left].partition_index)
            break
        left -= len(rows)
    await _tell_eligible(broker, answer)
    return answer


async def _tell_eligible(broker: Broker, answer: DescribeTopicPartitionsResponse) -> None:
    """Who else may lead is known to the registry alone; only where not all are in sync there can be any."""
    rows = {
        (topic.name, row.partition_index): row
        for topic in answer.topics
        for row in topic.partitions
        if len(row.isr_nodes) < len(row.replica_nodes)
    }
    if not rows:
        return
    try:
        nodes = await broker.registry.get_many([PARTITION_STATE.path(*key) for key in rows])
    except RegistryError:
        return  # Nobody is told to be eligible whom we do not know to be.
    for (key, row), node in zip(rows.items(), nodes, strict=True):
        if node is not None:
            state = PARTITION_STATE.decode(node.data, *key)
            row.eligible_leader_replicas = list(state.eligible)
            row.last_known_elr = [state.last_known] if state.last_known != NO_LEADER else []


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    is_legal = topic_name_fault(name) is None
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_legal else ErrorCode.INVALID_TOPIC_EXCEPTION
    return DescribeTopicPartitionsResponseTopic(error_code=code, name=name)


def _described(topic: Topic, first_index: int) -> Iterator[DescribeTopicPartitionsResponsePartition]:
    for index, state in sorted(topic.partitions.items()):
        if index >= first_index:
            yield DescribeTopicPartitionsResponsePartition(
                error_code=_leader_error(state),
                partition_index=index,
                leader_id=state.leader,
                leader_epoch=state.leader_epoch,
                replica_nodes=state.replicas,
                isr_nodes=state.isr,
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=state.offline_replicas,
            )


async def cluster(broker: Broker, request: DescribeClusterRequest, call: Call) -> DescribeClusterResponse:
    """The brokers, the controller and the cluster's id.

    Nobody is controller while this broker hears nothing of the registry, without which nothing can be decided. Metadata
    names whoever was, for librdkafka's administrators wait half a minute once they were told of none.
    """
    if request.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE, error_message="this is a broker's listener"
        )
    view = broker.cluster
    return DescribeClusterResponse(
        cluster_id=view.cluster_id,
        controller_id=view.controller_id if broker.standing.is_sure() else NO_CONTROLLER,
        brokers=[
            DescribeClusterBroker(broker_id=each.broker_id, host=each.host, port=each.port, rack=each.rack)
            for each in view.endpoints(call.connection.listener)
        ],
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else NOT_ASKED
        ),
    )
