"""ListOffsets (API 2) and OffsetForLeaderEpoch (API 23): where things are in a partition."""

from millstream.broker.broker import Broker
from millstream.broker.connection import Call
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from millstream.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
READ_COMMITTED = 1
NEVER = 2**15
#: From this version on clients know what OFFSET_NOT_AVAILABLE is.
NOT_AVAILABLE_FROM_VERSION = 5
#: What a negative timestamp asks for, and the first version that may ask for it.
ASKED_FROM_VERSION = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}


async def list_offsets(broker: Broker, request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse:
    """The offset each row asks for; consumers see nothing at or above the watermark of their isolation level."""
    answer = ListOffsetsResponse()
    for topic in request.topics:
        rows = [await _offset(broker, request, call.version, topic.name, row) for row in topic.partitions]
        answer.topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=rows))
    return answer


async def _offset(
    broker: Broker, request: ListOffsetsRequest, version: int, topic: str, row: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=row.partition_index)
    try:
        if row.timestamp < 0 and version < ASKED_FROM_VERSION.get(row.timestamp, NEVER):
            raise ProtocolError(ErrorCode.UNSUPPORTED_VERSION)
        partition = broker.replicas.find(topic, row.partition_index)
        log = partition.leader_log(row.current_leader_epoch)
        if request.replica_id >= 0:
            upper = log.end_offset
        elif request.isolation_level == READ_COMMITTED:
            upper = partition.last_stable_offset
        else:
            upper = partition.high_watermark
        leading = partition.role.leading
        # A new leader may not know yet how far readers have seen; they must never be told of less (KIP-207).
        is_behind = request.replica_id < 0 and leading is not None and partition.high_watermark < leading.epoch_start
        if row.timestamp == LATEST:
            if is_behind:
                raise ProtocolError(_not_available(version))
            answer.offset, answer.leader_epoch = upper, partition.role.leadership.leader_epoch
        elif row.timestamp in (EARLIEST, EARLIEST_LOCAL):
            answer.offset = log.start_offset
            answer.leader_epoch = log.epochs.epoch_at(log.start_offset)
        elif row.timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            pass  # Nothing is tiered, so there is no such offset.
        else:
            if row.timestamp == MAX_TIMESTAMP:
                found = await log.max_timestamp_async(broker.workers)
            else:
                found = await log.find_timestamp_async(row.timestamp, broker.workers)
            if is_behind and found is not None and found[1] >= upper:
                raise ProtocolError(_not_available(version))
            if found is not None and found[1] < upper:
                answer.timestamp, answer.offset, answer.leader_epoch = found
    except ProtocolError as refusal:
        answer.error_code = refusal.code
    return answer


def _not_available(version: int) -> ErrorCode:
    is_known = version >= NOT_AVAILABLE_FROM_VERSION
    return ErrorCode.OFFSET_NOT_AVAILABLE if is_known else ErrorCode.LEADER_NOT_AVAILABLE


async def for_leader_epoch(
    broker: Broker, request: OffsetForLeaderEpochRequest, call: Call
) -> OffsetForLeaderEpochResponse:
    """How far each epoch reached, so that a reader can find where its log left this one."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[_epoch_end(broker, topic.topic, row) for row in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _epoch_end(broker: Broker, topic: str, row: OffsetForLeaderPartition) -> EpochEndOffset:
    answer = EpochEndOffset(partition=row.partition)
    try:
        log = broker.replicas.find(topic, row.partition).leader_log(row.current_leader_epoch)
        answer.leader_epoch, answer.end_offset = log.epochs.end_offset_for(row.leader_epoch)
    except ProtocolError as refusal:
        answer.error_code = refusal.code
    return answer
