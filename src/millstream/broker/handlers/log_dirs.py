"""DescribeLogDirs (API 35) and AlterReplicaLogDirs (API 34): the log directories, and what lies in them."""

import os.path

from millstream.broker.broker import Broker
from millstream.broker.connection import Call
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from millstream.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from millstream.replication.role import Part
from millstream.storage.directory import LogDirectory
from millstream.storage.log import Log


async def describe(broker: Broker, request: DescribeLogDirsRequest, call: Call) -> DescribeLogDirsResponse:
    """Every directory, and of the partitions asked for those that lie in it."""
    wanted = (
        None
        if request.topics is None
        else {TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions}
    )
    return DescribeLogDirsResponse(results=[_directory(broker, each, wanted) for each in broker.logs.directories])


async def alter(broker: Broker, request: AlterReplicaLogDirsRequest, call: Call) -> AlterReplicaLogDirsResponse:
    """Have replicas lie in other directories; they are copied while they are used, and the answer does not wait."""
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for wanted in request.dirs:
        for topic in wanted.topics:
            result = topics.setdefault(topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name))
            for index in topic.partitions:
                code = await _move(broker, wanted.path, TopicPartition(topic.name, index))
                result.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


async def _move(broker: Broker, path: str, name: TopicPartition) -> ErrorCode:
    directory = _directory_at(broker, path)
    if directory is None:
        return ErrorCode.LOG_DIR_NOT_FOUND
    try:
        await broker.moves.begin(broker.replicas.find(*name), directory)
    except ProtocolError as refusal:
        is_elsewhere = refusal.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.REPLICA_NOT_AVAILABLE if is_elsewhere else refusal.code
    return ErrorCode.NONE


def _directory_at(broker: Broker, path: str) -> LogDirectory | None:
    wanted = os.path.abspath(path)
    return next((each for each in broker.logs.directories if os.path.abspath(each.path) == wanted), None)


def _lag(broker: Broker, name: TopicPartition, log: Log) -> int:
    """How many committed records a follower still has to copy, as far as its leader has told it."""
    try:
        partition = broker.replicas.find(*name)
    except ProtocolError:
        return 0  # It has no part in anything.
    is_follower = partition.role.part is Part.FOLLOWER
    return max(partition.leader_watermark - log.end_offset, 0) if is_follower else 0


def _directory(broker: Broker, directory: LogDirectory, wanted: set[TopicPartition] | None) -> DescribeLogDirsResult:
    path = os.path.abspath(directory.path)
    if directory.failure is not None:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)
    topics: dict[str, DescribeLogDirsTopic] = {}
    for name, log in sorted(directory.logs.items()):
        if wanted is None or name in wanted:
            topic = topics.setdefault(name.topic, DescribeLogDirsTopic(name=name.topic))
            topic.partitions.append(
                DescribeLogDirsPartition(
                    partition_index=name.partition,
                    partition_size=log.size_bytes,
                    offset_lag=_lag(broker, name, log),
                )
            )
    for name, copy in sorted(broker.moves.copies.items()):
        if copy.log.directory is directory and (wanted is None or name in wanted):
            topic = topics.setdefault(name.topic, DescribeLogDirsTopic(name=name.topic))
            topic.partitions.append(
                DescribeLogDirsPartition(
                    partition_index=name.partition,
                    partition_size=copy.log.size_bytes,
                    offset_lag=copy.left,
                    is_future_key=True,
                )
            )
    total_bytes, usable_bytes = directory.files.volume_bytes(directory.path)
    return DescribeLogDirsResult(
        log_dir=path, topics=list(topics.values()), total_bytes=total_bytes, usable_bytes=usable_bytes
    )
