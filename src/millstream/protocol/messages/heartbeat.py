"""Heartbeat (API 12): a member of a classic group is alive.

v1 adds the throttle time; v3 brings static members; v4 is flexible.
"""

from millstream.protocol.schema import Request, Response, field, request, response
from millstream.protocol.types import Int16, Int32, String


@request(key=12, versions="0-4", flexible="4+")
class HeartbeatRequest(Request):
    group_id: str = field(String)
    generation_id: int = field(Int32)
    member_id: str = field(String)
    group_instance_id: str | None = field(String, "3+", nullable="3+")


@response(to=HeartbeatRequest)
class HeartbeatResponse(Response):
    throttle_time_ms: int = field(Int32, "1+")
    error_code: int = field(Int16)
