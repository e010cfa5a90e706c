"""ConsumerGroupDescribe (API 69): state, members and assignments of KIP-848 groups.

v1 tells members of the classic protocol apart.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import NOT_ASKED, Array, Bool, Int8, Int16, Int32, String, Uuid


@request(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeRequest(Request):
    group_ids: list[str] = field(Array(String))
    include_authorized_operations: bool = field(Bool)


@struct
class TopicPartitions:
    topic_id: bytes = field(Uuid)
    topic_name: str = field(String)
    partitions: list[int] = field(Array(Int32))


@struct
class Assignment:
    topic_partitions: list[TopicPartitions] = field(Array(TopicPartitions))


@struct
class Member:
    member_id: str = field(String)
    instance_id: str | None = field(String, nullable="0+")
    rack_id: str | None = field(String, nullable="0+")
    member_epoch: int = field(Int32)
    client_id: str = field(String)
    client_host: str = field(String)
    subscribed_topic_names: list[str] = field(Array(String))
    subscribed_topic_regex: str | None = field(String, nullable="0+")
    assignment: Assignment = field(Assignment)
    target_assignment: Assignment = field(Assignment)
    member_type: int = field(Int8, "1+", default=-1)  # -1: unknown, 0: classic, 1: consumer


@struct
class DescribedGroup:
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable="0+")
    group_id: str = field(String)
    group_state: str = field(String)
    group_epoch: int = field(Int32)
    assignment_epoch: int = field(Int32)
    assignor_name: str = field(String)
    members: list[Member] = field(Array(Member))
    authorized_operations: int = field(Int32, default=NOT_ASKED)


@response(to=ConsumerGroupDescribeRequest)
class ConsumerGroupDescribeResponse(Response):
    throttle_time_ms: int = field(Int32)
    groups: list[DescribedGroup] = field(Array(DescribedGroup))
