"""DescribeTopicPartitions (API 75): topics page by page, with their eligible leaders.  Flexible from the start."""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import NOT_ASKED, Array, Bool, Int16, Int32, String, Uuid


@struct
class TopicRequest:
    name: str = field(String)


@struct
class Cursor:
    topic_name: str = field(String)
    partition_index: int = field(Int32)


@request(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsRequest(Request):
    topics: list[TopicRequest] = field(Array(TopicRequest))
    response_partition_limit: int = field(Int32, default=2000)
    cursor: Cursor | None = field(Cursor, nullable="0+")  # where to go on, as the last answer said


@struct
class DescribeTopicPartitionsResponsePartition:
    error_code: int = field(Int16)
    partition_index: int = field(Int32)
    leader_id: int = field(Int32)
    leader_epoch: int = field(Int32, default=-1)
    replica_nodes: list[int] = field(Array(Int32))
    isr_nodes: list[int] = field(Array(Int32))
    eligible_leader_replicas: list[int] | None = field(Array(Int32), nullable="0+")
    last_known_elr: list[int] | None = field(Array(Int32), nullable="0+")
    offline_replicas: list[int] = field(Array(Int32))


@struct
class DescribeTopicPartitionsResponseTopic:
    error_code: int = field(Int16)
    name: str | None = field(String, nullable="0+")
    topic_id: bytes = field(Uuid)
    is_internal: bool = field(Bool)
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(Array(DescribeTopicPartitionsResponsePartition))
    topic_authorized_operations: int = field(Int32, default=NOT_ASKED)


@response(to=DescribeTopicPartitionsRequest)
class DescribeTopicPartitionsResponse(Response):
    throttle_time_ms: int = field(Int32)
    topics: list[DescribeTopicPartitionsResponseTopic] = field(Array(DescribeTopicPartitionsResponseTopic))
    next_cursor: Cursor | None = field(Cursor, nullable="0+")
