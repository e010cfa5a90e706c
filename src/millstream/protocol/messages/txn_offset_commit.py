"""TxnOffsetCommit (API 28): a group's offsets, to hold once the transaction commits.

v2 brings the leader epoch; v3 is flexible and names the member; v4 allows a new error; v5 also adds the group to the
transaction.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Int16, Int32, Int64, String


@struct
class TxnOffsetCommitRequestPartition:
    partition_index: int = field(Int32)
    committed_offset: int = field(Int64)
    committed_leader_epoch: int = field(Int32, "2+", default=-1)
    committed_metadata: str | None = field(String, nullable="0+")


@struct
class TxnOffsetCommitRequestTopic:
    name: str = field(String)
    partitions: list[TxnOffsetCommitRequestPartition] = field(Array(TxnOffsetCommitRequestPartition))


@request(key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitRequest(Request):
    transactional_id: str = field(String)
    group_id: str = field(String)
    producer_id: int = field(Int64)
    producer_epoch: int = field(Int16)
    generation_id: int = field(Int32, "3+", default=-1)
    member_id: str = field(String, "3+")
    group_instance_id: str | None = field(String, "3+", nullable="3+")
    topics: list[TxnOffsetCommitRequestTopic] = field(Array(TxnOffsetCommitRequestTopic))


@struct
class TxnOffsetCommitResponsePartition:
    partition_index: int = field(Int32)
    error_code: int = field(Int16)


@struct
class TxnOffsetCommitResponseTopic:
    name: str = field(String)
    partitions: list[TxnOffsetCommitResponsePartition] = field(Array(TxnOffsetCommitResponsePartition))


@response(to=TxnOffsetCommitRequest)
class TxnOffsetCommitResponse(Response):
    throttle_time_ms: int = field(Int32)
    topics: list[TxnOffsetCommitResponseTopic] = field(Array(TxnOffsetCommitResponseTopic))
