"""OffsetForLeaderEpoch (API 23): where a leader's epoch ends, so that a reader can find where it diverged.

v2 fences by leader epoch; v3 says who asks; v4 is flexible.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Int16, Int32, Int64, String


@struct
class OffsetForLeaderPartition:
    partition: int = field(Int32)
    current_leader_epoch: int = field(Int32, default=-1)
    leader_epoch: int = field(Int32)


@struct
class OffsetForLeaderTopic:
    topic: str = field(String)
    partitions: list[OffsetForLeaderPartition] = field(Array(OffsetForLeaderPartition))


@request(key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochRequest(Request):
    replica_id: int = field(Int32, "3+", default=-2)
    topics: list[OffsetForLeaderTopic] = field(Array(OffsetForLeaderTopic))


@struct
class EpochEndOffset:
    error_code: int = field(Int16)
    partition: int = field(Int32)
    leader_epoch: int = field(Int32, default=-1)
    end_offset: int = field(Int64, default=-1)


@struct
class OffsetForLeaderTopicResult:
    topic: str = field(String)
    partitions: list[EpochEndOffset] = field(Array(EpochEndOffset))


@response(to=OffsetForLeaderEpochRequest)
class OffsetForLeaderEpochResponse(Response):
    throttle_time_ms: int = field(Int32)
    topics: list[OffsetForLeaderTopicResult] = field(Array(OffsetForLeaderTopicResult))
