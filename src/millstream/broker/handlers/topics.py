"""CreateTopics (19), DeleteTopics (20), CreatePartitions (37) and DeleteRecords (21)."""

from collections import Counter
from collections.abc import Awaitable, Iterable

from millstream.broker.broker import Broker
from millstream.broker.cluster_view import ClusterView
from millstream.broker.connection import Call
from millstream.broker.refusals import REFUSALS, refusal
from millstream.config.describe import describe_topic
from millstream.controller.interface import MorePartitions, NewTopic, TopicResult
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import ZERO_UUID, Uuid
from millstream.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from millstream.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from millstream.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from millstream.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from millstream.replication.partition import Partition

TWICE = "the request names this topic twice"


async def _results(asked: Awaitable[list[TopicResult]], topics: Iterable[str | Uuid]) -> list[TopicResult]:
    """What became of each topic; where the controller could do nothing at all, every one of them is told why."""
    try:
        return await asked
    except REFUSALS as error:
        code, message = refusal(error)
        return [
            TopicResult(topic, error_code=code, error_message=message)
            if isinstance(topic, str)
            else TopicResult(None, topic, code, message)
            for topic in topics
        ]


async def create(broker: Broker, request: CreateTopicsRequest, call: Call) -> CreateTopicsResponse:
    """Each topic is made whole or refused with its reason; a name given twice is refused both times."""
    counts = Counter(topic.name for topic in request.topics)
    rows = [
        CreatableTopicResult(name=name, error_code=ErrorCode.INVALID_REQUEST, error_message=TWICE)
        for name, count in counts.items()
        if count > 1
    ]
    wanted = []
    for topic in request.topics:
        if counts[topic.name] > 1:
            continue
        if len({row.partition_index for row in topic.assignments}) < len(topic.assignments):
            why = "a partition is assigned replicas twice"
            rows.append(
                CreatableTopicResult(
                    name=topic.name, error_code=ErrorCode.INVALID_REPLICA_ASSIGNMENT, error_message=why
                )
            )
        else:
            wanted.append(topic)
    results = await _results(
        broker.controller.create_topics([_new_topic(topic) for topic in wanted], request.validate_only),
        [topic.name for topic in wanted],
    )
    rows += [_created(broker, asked, result) for asked, result in zip(wanted, results, strict=True)]
    return CreateTopicsResponse(topics=rows)


def are_created(view: ClusterView, request: CreateTopicsRequest, response: CreateTopicsResponse) -> bool:
    """Whether a broker knows the topics that were made."""
    return request.validate_only or all(row.error_code or row.name in view.topics for row in response.topics)


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments={row.partition_index: row.broker_ids for row in topic.assignments},
        configs={row.name: row.value for row in topic.configs},
        topic_id=topic.chosen_id,
    )


def _created(broker: Broker, asked: CreatableTopic, result: TopicResult) -> CreatableTopicResult:
    row = CreatableTopicResult(
        name=asked.name,
        topic_id=result.topic_id,
        error_code=result.error_code,
        error_message=result.error_message,
        num_partitions=result.num_partitions,
        replication_factor=result.replication_factor,
    )
    if result.error_code == ErrorCode.NONE:
        overrides = {config.name: config.value for config in asked.configs if config.value is not None}
        row.configs = [
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.is_read_only,
                config_source=entry.source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in describe_topic(broker.settings.config, overrides)
        ]
    return row


async def delete(broker: Broker, request: DeleteTopicsRequest, call: Call) -> DeleteTopicsResponse:
    """Delete by name or id; a topic that is gone from the answer on is gone, and one named twice stays."""
    wanted = request.topics or [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in request.topic_names]
    names = [_name(broker, topic) for topic in wanted]
    counts = Counter(name for name in names if name is not None)
    rows, asked = [], []
    for topic, name in zip(wanted, names, strict=True):
        if (topic.name is None) == (topic.topic_id == ZERO_UUID):
            why = "a topic is named either by its name or by its id"
        elif name is not None and counts[name] > 1:
            why = TWICE
        else:
            asked.append(topic.topic_id if topic.name is None else topic.name)
            continue
        rows.append(
            DeletableTopicResult(
                name=topic.name, topic_id=topic.topic_id, error_code=ErrorCode.INVALID_REQUEST, error_message=why
            )
        )
    rows += [
        DeletableTopicResult(
            name=result.name,
            topic_id=result.topic_id,
            error_code=result.error_code,
            error_message=result.error_message,
        )
        for result in await _results(broker.controller.delete_topics(asked), asked)
    ]
    return DeleteTopicsResponse(responses=rows)


def are_deleted(view: ClusterView, request: DeleteTopicsRequest, response: DeleteTopicsResponse) -> bool:
    """Whether a broker no longer shows the topics that were deleted."""
    return all(row.error_code or row.name not in view.topics for row in response.responses)


def _name(broker: Broker, topic: DeleteTopicState) -> str | None:
    return broker.cluster.name_of(topic.topic_id) if topic.name is None else topic.name


async def add_partitions(broker: Broker, request: CreatePartitionsRequest, call: Call) -> CreatePartitionsResponse:
    """Widen topics to the counts asked for."""
    wanted = [
        MorePartitions(
            topic.name,
            topic.count,
            None if topic.assignments is None else [row.broker_ids for row in topic.assignments],
        )
        for topic in request.topics
    ]
    results = await _results(
        broker.controller.create_partitions(wanted, request.validate_only), [topic.name for topic in wanted]
    )
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(
                name=result.name or "", error_code=result.error_code, error_message=result.error_message
            )
            for result in results
        ]
    )


def are_added(view: ClusterView, request: CreatePartitionsRequest, response: CreatePartitionsResponse) -> bool:
    """Whether a broker knows the partitions that were added."""
    refused = {row.name for row in response.results if row.error_code}
    shapes = view.shapes(topic.name for topic in request.topics)
    return request.validate_only or all(
        topic.name in refused or topic.name not in shapes or shapes[topic.name][1] >= topic.count
        for topic in request.topics
    )


async def delete_records(broker: Broker, request: DeleteRecordsRequest, call: Call) -> DeleteRecordsResponse:
    """Forget what lies before an offset, here and on every replica in sync; the answer is where all logs start then."""
    owed: list[tuple[Partition, int, DeleteRecordsPartitionResult]] = []
    answer = DeleteRecordsResponse()
    for topic in request.topics:
        rows = [_delete_records(broker, topic.name, row, owed) for row in topic.partitions]
        answer.topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=rows))
    if owed:
        await broker.purgatory.until(
            lambda: all(_is_gone_everywhere(partition, offset) for partition, offset, _ in owed),
            watching=[partition for partition, _, _ in owed],
            timeout_ms=request.timeout_ms,
        )
    for partition, offset, result in owed:
        try:
            partition.leader_log()
            result.low_watermark = partition.low_watermark
            if result.low_watermark < offset:
                result.error_code = ErrorCode.REQUEST_TIMED_OUT
        except ProtocolError as refusal:
            result.error_code, result.low_watermark = refusal.code, -1
    return answer


def _is_gone_everywhere(partition: Partition, offset: int) -> bool:
    try:
        partition.leader_log()
        return partition.low_watermark >= offset
    except ProtocolError:
        return True  # It is no longer ours to wait for.


def _delete_records(
    broker: Broker,
    topic: str,
    row: DeleteRecordsPartition,
    owed: list[tuple[Partition, int, DeleteRecordsPartitionResult]],
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=row.partition_index, low_watermark=-1)
    try:
        partition = broker.replicas.find_for_client(topic, row.partition_index)
        start_offset = partition.delete_records(row.offset)
        result.low_watermark = partition.low_watermark
        if result.low_watermark < start_offset:
            owed.append((partition, start_offset, result))
    except ProtocolError as refusal:
        result.error_code = refusal.code
    return result
