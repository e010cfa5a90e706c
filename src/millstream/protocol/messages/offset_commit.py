"""OffsetCommit (API 8): remember how far a group has read.

v3 adds the throttle time; v5 drops the retention time a client asked for; v6 brings the leader epoch; v7 static
members; v8 is flexible; v9 is the first for KIP-848 members; v10 names topics by id.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Int16, Int32, Int64, String, Uuid


@struct
class OffsetCommitRequestPartition:
    partition_index: int = field(Int32)
    committed_offset: int = field(Int64)
    committed_leader_epoch: int = field(Int32, "6+", default=-1)
    committed_metadata: str | None = field(String, nullable="0+")


@struct
class OffsetCommitRequestTopic:
    name: str = field(String, "0-9")
    topic_id: bytes = field(Uuid, "10+")
    partitions: list[OffsetCommitRequestPartition] = field(Array(OffsetCommitRequestPartition))


@request(key=8, versions="2-10", flexible="8+")
class OffsetCommitRequest(Request):
    group_id: str = field(String)
    generation_id_or_member_epoch: int = field(Int32, default=-1)
    member_id: str = field(String)
    group_instance_id: str | None = field(String, "7+", nullable="7+")
    retention_time_ms: int = field(Int64, "2-4", default=-1)
    topics: list[OffsetCommitRequestTopic] = field(Array(OffsetCommitRequestTopic))


@struct
class OffsetCommitResponsePartition:
    partition_index: int = field(Int32)
    error_code: int = field(Int16)


@struct
class OffsetCommitResponseTopic:
    name: str = field(String, "0-9")
    topic_id: bytes = field(Uuid, "10+")
    partitions: list[OffsetCommitResponsePartition] = field(Array(OffsetCommitResponsePartition))


@response(to=OffsetCommitRequest)
class OffsetCommitResponse(Response):
    throttle_time_ms: int = field(Int32, "3+")
    topics: list[OffsetCommitResponseTopic] = field(Array(OffsetCommitResponseTopic))
