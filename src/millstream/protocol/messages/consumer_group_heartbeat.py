"""ConsumerGroupHeartbeat (API 68): join, stay in and leave a KIP-848 group, and learn one's assignment.

Null stands for what has not changed since the last heartbeat.  v1 adds subscription by regular expression, and has
clients make their own member ids.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Int16, Int32, String, Uuid


@struct
class TopicPartitions:
    topic_id: bytes = field(Uuid)
    partitions: list[int] = field(Array(Int32))


@request(key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatRequest(Request):
    group_id: str = field(String)
    member_id: str = field(String)
    member_epoch: int = field(Int32)  # 0: join, -1: leave, -2: leave for a while (static)
    instance_id: str | None = field(String, nullable="0+")
    rack_id: str | None = field(String, nullable="0+")
    rebalance_timeout_ms: int = field(Int32, default=-1)
    subscribed_topic_names: list[str] | None = field(Array(String), nullable="0+")
    subscribed_topic_regex: str | None = field(String, "1+", nullable="1+")
    server_assignor: str | None = field(String, nullable="0+")
    topic_partitions: list[TopicPartitions] | None = field(Array(TopicPartitions), nullable="0+")


@struct
class Assignment:
    topic_partitions: list[TopicPartitions] = field(Array(TopicPartitions))


@response(to=ConsumerGroupHeartbeatRequest)
class ConsumerGroupHeartbeatResponse(Response):
    throttle_time_ms: int = field(Int32)
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable="0+")
    member_id: str | None = field(String, nullable="0+")
    member_epoch: int = field(Int32)
    heartbeat_interval_ms: int = field(Int32)
    assignment: Assignment | None = field(Assignment, nullable="0+")
