"""JoinGroup (API 11): become, or stay, a member of a classic group; answered when the group has met.

v1 adds the rebalance time-out; v2 the throttle time; v4 makes a new member come back with the id it is given; v5
brings static members; v6 is flexible; v7 names the protocol's type; v8 gives a reason; v9 lets a leader that came
back skip the assignment.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Bool, Bytes, Int16, Int32, String


@struct
class JoinGroupRequestProtocol:
    name: str = field(String)
    metadata: bytes = field(Bytes)


@request(key=11, versions="0-9", flexible="6+")
class JoinGroupRequest(Request):
    group_id: str = field(String)
    session_timeout_ms: int = field(Int32)
    rebalance_timeout_ms: int = field(Int32, "1+", default=-1)  # -1: as the session's
    member_id: str = field(String)
    group_instance_id: str | None = field(String, "5+", nullable="5+")
    protocol_type: str = field(String)
    protocols: list[JoinGroupRequestProtocol] = field(Array(JoinGroupRequestProtocol))
    reason: str | None = field(String, "8+", nullable="8+")


@struct
class JoinGroupResponseMember:
    member_id: str = field(String)
    group_instance_id: str | None = field(String, "5+", nullable="5+")
    metadata: bytes = field(Bytes)


@response(to=JoinGroupRequest)
class JoinGroupResponse(Response):
    throttle_time_ms: int = field(Int32, "2+")
    error_code: int = field(Int16)
    generation_id: int = field(Int32, default=-1)
    protocol_type: str | None = field(String, "7+", nullable="7+")
    protocol_name: str | None = field(String, nullable="7+", default="")
    leader: str = field(String)
    skip_assignment: bool = field(Bool, "9+")
    member_id: str = field(String)
    members: list[JoinGroupResponseMember] = field(Array(JoinGroupResponseMember))
