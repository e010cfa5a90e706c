"""ListOffsets (API 2): the offset for a point in time, or for either end of a partition.

v1 answers one offset; v2 adds isolation levels; v4 fences by leader epoch; v6 is flexible; v7 finds the largest
timestamp; v8, v9 and v11 ask about tiered storage; v10 bounds the wait.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Int8, Int16, Int32, Int64, String


@struct
class ListOffsetsPartition:
    partition_index: int = field(Int32)
    current_leader_epoch: int = field(Int32, "4+", default=-1)
    timestamp: int = field(Int64)  # or one of the negative markers: -1 latest, -2 earliest, -3 max timestamp, …


@struct
class ListOffsetsTopic:
    name: str = field(String)
    partitions: list[ListOffsetsPartition] = field(Array(ListOffsetsPartition))


@request(key=2, versions="1-11", flexible="6+")
class ListOffsetsRequest(Request):
    replica_id: int = field(Int32)  # -1: a consumer
    isolation_level: int = field(Int8, "2+")  # 0: read uncommitted, 1: read committed
    topics: list[ListOffsetsTopic] = field(Array(ListOffsetsTopic))
    timeout_ms: int = field(Int32, "10+")


@struct
class ListOffsetsPartitionResponse:
    partition_index: int = field(Int32)
    error_code: int = field(Int16)
    timestamp: int = field(Int64, default=-1)
    offset: int = field(Int64, default=-1)
    leader_epoch: int = field(Int32, "4+", default=-1)


@struct
class ListOffsetsTopicResponse:
    name: str = field(String)
    partitions: list[ListOffsetsPartitionResponse] = field(Array(ListOffsetsPartitionResponse))


@response(to=ListOffsetsRequest)
class ListOffsetsResponse(Response):
    throttle_time_ms: int = field(Int32, "2+")
    topics: list[ListOffsetsTopicResponse] = field(Array(ListOffsetsTopicResponse))
