"""CreatePartitions (API 37): give topics more partitions.

v2 is flexible; v3 may be throttled.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Bool, Int16, Int32, String


@struct
class CreatePartitionsAssignment:
    broker_ids: list[int] = field(Array(Int32))


@struct
class CreatePartitionsTopic:
    name: str = field(String)
    count: int = field(Int32)  # the new total, not the increase
    # assignments: None: placed by the broker
    assignments: list[CreatePartitionsAssignment] | None = field(Array(CreatePartitionsAssignment), nullable="0+")


@request(key=37, versions="0-3", flexible="2+")
class CreatePartitionsRequest(Request):
    topics: list[CreatePartitionsTopic] = field(Array(CreatePartitionsTopic))
    timeout_ms: int = field(Int32)
    validate_only: bool = field(Bool)


@struct
class CreatePartitionsTopicResult:
    name: str = field(String)
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable="0+")


@response(to=CreatePartitionsRequest)
class CreatePartitionsResponse(Response):
    throttle_time_ms: int = field(Int32)
    results: list[CreatePartitionsTopicResult] = field(Array(CreatePartitionsTopicResult))
