"""AlterPartitionReassignments (API 45): move partitions to other brokers, or stop moving them.

v1 may forbid that the number of replicas changes.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Bool, Int16, Int32, String


@struct
class ReassignablePartition:
    partition_index: int = field(Int32)
    replicas: list[int] | None = field(Array(Int32), nullable="0+", default=None)  # None: leave it where it was.


@struct
class ReassignableTopic:
    name: str = field(String)
    partitions: list[ReassignablePartition] = field(Array(ReassignablePartition))


@request(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsRequest(Request):
    timeout_ms: int = field(Int32, default=60_000)
    allow_replication_factor_change: bool = field(Bool, "1+", default=True)
    topics: list[ReassignableTopic] = field(Array(ReassignableTopic))


@struct
class ReassignablePartitionResponse:
    partition_index: int = field(Int32)
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable="0+")


@struct
class ReassignableTopicResponse:
    name: str = field(String)
    partitions: list[ReassignablePartitionResponse] = field(Array(ReassignablePartitionResponse))


@response(to=AlterPartitionReassignmentsRequest)
class AlterPartitionReassignmentsResponse(Response):
    throttle_time_ms: int = field(Int32)
    allow_replication_factor_change: bool = field(Bool, "1+", default=True)
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable="0+")
    responses: list[ReassignableTopicResponse] = field(Array(ReassignableTopicResponse))
