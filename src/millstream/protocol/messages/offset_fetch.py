"""OffsetFetch (API 9): how far groups have read.

v2 lets a client ask for all topics and has an error for the whole group; v3 adds the throttle time; v5 the leader
epoch; v6 is flexible; v7 may ask for stable offsets only; v8 asks for several groups at once; v9 lets a KIP-848
member prove itself; v10 names topics by id.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Bool, Int16, Int32, Int64, String, Uuid


@struct
class OffsetFetchRequestTopic:
    name: str = field(String, "0-7")
    partition_indexes: list[int] = field(Array(Int32), "0-7")


@struct
class OffsetFetchRequestTopics:
    name: str = field(String, "8-9")
    topic_id: bytes = field(Uuid, "10+")
    partition_indexes: list[int] = field(Array(Int32), "8+")


@struct
class OffsetFetchRequestGroup:
    group_id: str = field(String, "8+")
    member_id: str | None = field(String, "9+", nullable="9+")
    member_epoch: int = field(Int32, "9+", default=-1)
    # None: all of them, here and below.
    topics: list[OffsetFetchRequestTopics] | None = field(Array(OffsetFetchRequestTopics), "8+", nullable="8+")


@request(key=9, versions="1-10", flexible="6+")
class OffsetFetchRequest(Request):
    group_id: str = field(String, "0-7")
    topics: list[OffsetFetchRequestTopic] | None = field(Array(OffsetFetchRequestTopic), "0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = field(Array(OffsetFetchRequestGroup), "8+")
    require_stable: bool = field(Bool, "7+")


@struct
class OffsetFetchResponsePartition:
    partition_index: int = field(Int32, "0-7")
    committed_offset: int = field(Int64, "0-7")
    committed_leader_epoch: int = field(Int32, "5-7", default=-1)
    metadata: str | None = field(String, "0-7", nullable="0-7")
    error_code: int = field(Int16, "0-7")


@struct
class OffsetFetchResponseTopic:
    name: str = field(String, "0-7")
    partitions: list[OffsetFetchResponsePartition] = field(Array(OffsetFetchResponsePartition), "0-7")


@struct
class OffsetFetchResponsePartitions:
    partition_index: int = field(Int32, "8+")
    committed_offset: int = field(Int64, "8+")
    committed_leader_epoch: int = field(Int32, "8+", default=-1)
    metadata: str | None = field(String, "8+", nullable="8+")
    error_code: int = field(Int16, "8+")


@struct
class OffsetFetchResponseTopics:
    name: str = field(String, "8-9")
    topic_id: bytes = field(Uuid, "10+")
    partitions: list[OffsetFetchResponsePartitions] = field(Array(OffsetFetchResponsePartitions), "8+")


@struct
class OffsetFetchResponseGroup:
    group_id: str = field(String, "8+")
    topics: list[OffsetFetchResponseTopics] = field(Array(OffsetFetchResponseTopics), "8+")
    error_code: int = field(Int16, "8+")


@response(to=OffsetFetchRequest)
class OffsetFetchResponse(Response):
    throttle_time_ms: int = field(Int32, "3+")
    topics: list[OffsetFetchResponseTopic] = field(Array(OffsetFetchResponseTopic), "0-7")
    error_code: int = field(Int16, "2-7")
    groups: list[OffsetFetchResponseGroup] = field(Array(OffsetFetchResponseGroup), "8+")
