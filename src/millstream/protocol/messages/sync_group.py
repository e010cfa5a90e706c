"""SyncGroup (API 14): a leader hands in its classic group's assignment, every member receives its own.

v1 adds the throttle time; v3 brings static members; v4 is flexible; v5 names the protocol for the broker to check.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Bytes, Int16, Int32, String


@struct
class SyncGroupRequestAssignment:
    member_id: str = field(String)
    assignment: bytes = field(Bytes)


@request(key=14, versions="0-5", flexible="4+")
class SyncGroupRequest(Request):
    group_id: str = field(String)
    generation_id: int = field(Int32)
    member_id: str = field(String)
    group_instance_id: str | None = field(String, "3+", nullable="3+")
    protocol_type: str | None = field(String, "5+", nullable="5+")
    protocol_name: str | None = field(String, "5+", nullable="5+")
    assignments: list[SyncGroupRequestAssignment] = field(Array(SyncGroupRequestAssignment))


@response(to=SyncGroupRequest)
class SyncGroupResponse(Response):
    throttle_time_ms: int = field(Int32, "1+")
    error_code: int = field(Int16)
    protocol_type: str | None = field(String, "5+", nullable="5+")
    protocol_name: str | None = field(String, "5+", nullable="5+")
    assignment: bytes = field(Bytes)
