"""DescribeLogDirs (API 35): the log directories and what lies in them."""

import os.path

from millstream.broker.broker import Broker
from millstream.broker.connection import Call
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
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
    total_bytes, usable_bytes = directory.files.volume_bytes(directory.path)
    return DescribeLogDirsResult(
        log_dir=path, topics=list(topics.values()), total_bytes=total_bytes, usable_bytes=usable_bytes
    )
