"""CreateTopics (19), DeleteTopics (20), CreatePartitions (37) and DeleteRecords (21)."""

from collections import Counter

from millstream.broker.broker import Broker
from millstream.broker.connection import Call
from millstream.config.describe import describe_topic
from millstream.controller.interface import MorePartitions, NewTopic, TopicResult
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import ZERO_UUID
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

ONLY_NAMES_BELOW_VERSION = 6


async def create(broker: Broker, request: CreateTopicsRequest, call: Call) -> CreateTopicsResponse:
    """Each topic is made whole or refused with its reason; a name given twice is refused both times."""
    counts = Counter(topic.name for topic in request.topics)
    once = [topic for topic in request.topics if counts[topic.name] == 1]
    results = await broker.controller.create_topics([_new_topic(topic) for topic in once], request.validate_only)
    rows = [_created(broker, asked, result) for asked, result in zip(once, results, strict=True)]
    rows += [
        CreatableTopicResult(
            name=name, error_code=ErrorCode.INVALID_REQUEST, error_message="the request names this topic twice"
        )
        for name, count in counts.items()
        if count > 1
    ]
    return CreateTopicsResponse(topics=rows)


def _new_topic(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments={row.partition_index: row.broker_ids for row in topic.assignments},
        configs={row.name: row.value for row in topic.configs},
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
    """Delete by name or id; a topic that is gone from the answer on is gone."""
    wanted = request.topics or [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in request.topic_names]
    results = await broker.controller.delete_topics(
        [topic.name if topic.name is not None else topic.topic_id for topic in wanted]
    )
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=result.name,
                topic_id=result.topic_id,
                error_code=result.error_code,
                error_message=result.error_message,
            )
            for result in results
        ]
    )


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
    results = await broker.controller.create_partitions(wanted, request.validate_only)
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(
                name=result.name or "", error_code=result.error_code, error_message=result.error_message
            )
            for result in results
        ]
    )


async def delete_records(broker: Broker, request: DeleteRecordsRequest, call: Call) -> DeleteRecordsResponse:
    """Forget what lies before an offset; the answer is the new start of each log."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name, partitions=[_delete_records(broker, topic.name, row) for row in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _delete_records(broker: Broker, topic: str, row: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    try:
        low_watermark = broker.replicas.find(topic, row.partition_index).delete_records(row.offset)
    except ProtocolError as refusal:
        return DeleteRecordsPartitionResult(
            partition_index=row.partition_index, low_watermark=-1, error_code=refusal.code
        )
    return DeleteRecordsPartitionResult(partition_index=row.partition_index, low_watermark=low_watermark)
