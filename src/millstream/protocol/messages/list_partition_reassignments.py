"""ListPartitionReassignments (API 46): the partitions that are being moved."""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Int16, Int32, String


@struct
class ListPartitionReassignmentsTopics:
    name: str = field(String)
    partition_indexes: list[int] = field(Array(Int32))


@request(key=46, versions="0-0", flexible="0+")
class ListPartitionReassignmentsRequest(Request):
    timeout_ms: int = field(Int32, default=60_000)
    topics: list[ListPartitionReassignmentsTopics] | None = field(
        Array(ListPartitionReassignmentsTopics), nullable="0+", default=None
    )  # None: all of them.


@struct
class OngoingPartitionReassignment:
    partition_index: int = field(Int32)
    replicas: list[int] = field(Array(Int32))
    adding_replicas: list[int] = field(Array(Int32))
    removing_replicas: list[int] = field(Array(Int32))


@struct
class OngoingTopicReassignment:
    name: str = field(String)
    partitions: list[OngoingPartitionReassignment] = field(Array(OngoingPartitionReassignment))


@response(to=ListPartitionReassignmentsRequest)
class ListPartitionReassignmentsResponse(Response):
    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable="0+")
    topics: list[OngoingTopicReassignment] = field(Array(OngoingTopicReassignment))
