"""The records of ``__consumer_offsets``: committed offsets, classic groups, and KIP-848 groups part by part.

Share and streams groups (types 10 to 15 and 17 to 23) are not ours, and their records not known here.
"""

from typing import Final, NamedTuple

from millstream.coordination.schemas.format import RecordFormat, key
from millstream.coordination.schemas.record import CoordinatorRecord
from millstream.protocol.schema import Value, field, struct, value
from millstream.protocol.types import Array, Bytes, Int8, Int32, Int64, String, Uuid

NO_TIMESTAMP: Final = -1
#: The only version of OffsetCommitValue that keeps the time-to-live which old clients may ask for.
_EXPIRING: Final = 1

# -- committed offsets -------------------------------------------------------------------------------------------------


@key
class OffsetCommitKey(NamedTuple):
    group: str
    topic: str
    partition: int


@value(versions="0-4", flexible="4+", written=4)
class OffsetCommitValue(Value):
    offset: int = field(Int64)
    leader_epoch: int = field(Int32, "3+", default=-1)
    metadata: str = field(String)
    commit_timestamp: int = field(Int64)
    expire_timestamp: int = field(Int64, "1", default=NO_TIMESTAMP)
    topic_id: bytes = field(Uuid, "4+", tag=0)


# -- classic groups ----------------------------------------------------------------------------------------------------


@key
class GroupMetadataKey(NamedTuple):
    group: str


@struct
class MemberMetadata:
    member_id: str = field(String)
    group_instance_id: str | None = field(String, "3+", nullable="3+")
    client_id: str = field(String)
    client_host: str = field(String)
    rebalance_timeout: int = field(Int32, "1+", default=-1)
    session_timeout: int = field(Int32)
    subscription: bytes = field(Bytes)
    assignment: bytes = field(Bytes)


@value(versions="0-4", flexible="4+", written=3)
class GroupMetadataValue(Value):
    protocol_type: str = field(String)
    generation: int = field(Int32)
    protocol: str | None = field(String, nullable="0+")
    leader: str | None = field(String, nullable="0+")
    current_state_timestamp: int = field(Int64, "2+", default=NO_TIMESTAMP)
    members: list[MemberMetadata] = field(Array(MemberMetadata))


# -- KIP-848 groups ----------------------------------------------------------------------------------------------------


@key
class ConsumerGroupMetadataKey(NamedTuple):
    group_id: str


@value(versions="0", flexible="0+", written=0)
class ConsumerGroupMetadataValue(Value):
    epoch: int = field(Int32)
    metadata_hash: int = field(Int64, tag=0)


@key
class ConsumerGroupPartitionMetadataKey(NamedTuple):
    group_id: str


@struct
class PartitionMetadata:
    partition: int = field(Int32)
    racks: list[str] = field(Array(String))


@struct
class TopicMetadata:
    topic_id: bytes = field(Uuid)
    topic_name: str = field(String)
    num_partitions: int = field(Int32)
    partition_metadata: list[PartitionMetadata] = field(Array(PartitionMetadata))


@value(versions="0", flexible="0+", written=0)
class ConsumerGroupPartitionMetadataValue(Value):
    """No longer written: ``metadata_hash`` has taken its place."""

    topics: list[TopicMetadata] = field(Array(TopicMetadata))


@key
class ConsumerGroupMemberMetadataKey(NamedTuple):
    group_id: str
    member_id: str


@struct
class ClassicProtocol:
    name: str = field(String)
    metadata: bytes = field(Bytes)


@struct
class ClassicMemberMetadata:
    session_timeout_ms: int = field(Int32)
    supported_protocols: list[ClassicProtocol] = field(Array(ClassicProtocol))


@value(versions="0", flexible="0+", written=0)
class ConsumerGroupMemberMetadataValue(Value):
    instance_id: str | None = field(String, nullable="0+")
    rack_id: str | None = field(String, nullable="0+")
    client_id: str = field(String)
    client_host: str = field(String)
    subscribed_topic_names: list[str] = field(Array(String))
    subscribed_topic_regex: str | None = field(String, nullable="0+")
    rebalance_timeout_ms: int = field(Int32, default=-1)
    server_assignor: str | None = field(String, nullable="0+")
    #: None: the member speaks the consumer protocol.
    classic_member_metadata: ClassicMemberMetadata | None = field(ClassicMemberMetadata, nullable="0+", tag=0)


@key
class ConsumerGroupTargetAssignmentMetadataKey(NamedTuple):
    group_id: str


@value(versions="0", flexible="0+", written=0)
class ConsumerGroupTargetAssignmentMetadataValue(Value):
    assignment_epoch: int = field(Int32)
    assignment_timestamp: int = field(Int64, tag=0)


@key
class ConsumerGroupTargetAssignmentMemberKey(NamedTuple):
    group_id: str
    member_id: str


@struct
class TopicPartition:
    topic_id: bytes = field(Uuid)
    partitions: list[int] = field(Array(Int32))


@value(versions="0", flexible="0+", written=0)
class ConsumerGroupTargetAssignmentMemberValue(Value):
    topic_partitions: list[TopicPartition] = field(Array(TopicPartition))


@key
class ConsumerGroupCurrentMemberAssignmentKey(NamedTuple):
    group_id: str
    member_id: str


@struct
class TopicPartitions:
    topic_id: bytes = field(Uuid)
    partitions: list[int] = field(Array(Int32))
    #: One for each partition: the member's epoch when it was given.
    assignment_epochs: list[int] | None = field(Array(Int32), nullable="0+", tag=0)


@value(versions="0", flexible="0+", written=0)
class ConsumerGroupCurrentMemberAssignmentValue(Value):
    member_epoch: int = field(Int32)
    previous_member_epoch: int = field(Int32)
    state: int = field(Int8)  # 0: stable, 1: has partitions to give back, 2: waits for others to give back
    assigned_partitions: list[TopicPartitions] = field(Array(TopicPartitions))
    partitions_pending_revocation: list[TopicPartitions] = field(Array(TopicPartitions))


@key
class ConsumerGroupRegularExpressionKey(NamedTuple):
    group_id: str
    regular_expression: str


@value(versions="0", flexible="0+", written=0)
class ConsumerGroupRegularExpressionValue(Value):
    topics: list[str] = field(Array(String))
    version: int = field(Int64)
    timestamp: int = field(Int64)


FORMAT: Final = RecordFormat(
    {
        0: (OffsetCommitKey, OffsetCommitValue),  # As Kafka once wrote it.
        1: (OffsetCommitKey, OffsetCommitValue),
        2: (GroupMetadataKey, GroupMetadataValue),
        3: (ConsumerGroupMetadataKey, ConsumerGroupMetadataValue),
        4: (ConsumerGroupPartitionMetadataKey, ConsumerGroupPartitionMetadataValue),
        5: (ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue),
        6: (ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue),
        7: (ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue),
        8: (ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue),
        16: (ConsumerGroupRegularExpressionKey, ConsumerGroupRegularExpressionValue),
    }
)

decode_record = FORMAT.decode


def encode_record(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    """Key and value as Kafka 4.3 writes them."""
    value = record.value
    if type(value) is OffsetCommitValue and value.expire_timestamp != NO_TIMESTAMP:
        return FORMAT.encode(record, _EXPIRING)
    return FORMAT.encode(record)
