"""OffsetDelete (API 47): forget a group's offsets of topics it does not subscribe to."""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Int16, Int32, String


@struct
class OffsetDeleteRequestPartition:
    partition_index: int = field(Int32)


@struct
class OffsetDeleteRequestTopic:
    name: str = field(String)
    partitions: list[OffsetDeleteRequestPartition] = field(Array(OffsetDeleteRequestPartition))


@request(key=47, versions="0", flexible=None)
class OffsetDeleteRequest(Request):
    group_id: str = field(String)
    topics: list[OffsetDeleteRequestTopic] = field(Array(OffsetDeleteRequestTopic))


@struct
class OffsetDeleteResponsePartition:
    partition_index: int = field(Int32)
    error_code: int = field(Int16)


@struct
class OffsetDeleteResponseTopic:
    name: str = field(String)
    partitions: list[OffsetDeleteResponsePartition] = field(Array(OffsetDeleteResponsePartition))


@response(to=OffsetDeleteRequest)
class OffsetDeleteResponse(Response):
    error_code: int = field(Int16)
    throttle_time_ms: int = field(Int32)
    topics: list[OffsetDeleteResponseTopic] = field(Array(OffsetDeleteResponseTopic))
