"""LeaveGroup (API 13): take members out of a classic group.

v1 adds the throttle time; v3 takes out several at once, static ones by their instance; v4 is flexible; v5 gives a
reason.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Int16, Int32, String


@struct
class MemberIdentity:
    member_id: str = field(String, "3+")
    group_instance_id: str | None = field(String, "3+", nullable="3+")
    reason: str | None = field(String, "5+", nullable="5+")


@request(key=13, versions="0-5", flexible="4+")
class LeaveGroupRequest(Request):
    group_id: str = field(String)
    member_id: str = field(String, "0-2")
    members: list[MemberIdentity] = field(Array(MemberIdentity), "3+")


@struct
class MemberResponse:
    member_id: str = field(String, "3+")
    group_instance_id: str | None = field(String, "3+", nullable="3+")
    error_code: int = field(Int16, "3+")


@response(to=LeaveGroupRequest)
class LeaveGroupResponse(Response):
    throttle_time_ms: int = field(Int32, "1+")
    error_code: int = field(Int16)
    members: list[MemberResponse] = field(Array(MemberResponse), "3+")
