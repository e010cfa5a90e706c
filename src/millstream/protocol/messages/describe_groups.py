"""DescribeGroups (API 15): state and members of classic groups.

v1 adds the throttle time; v3 the authorized operations; v4 static members; v5 is flexible; v6 has an error for a
group that is not there.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import NOT_ASKED, Array, Bool, Bytes, Int16, Int32, String


@request(key=15, versions="0-6", flexible="5+")
class DescribeGroupsRequest(Request):
    groups: list[str] = field(Array(String))
    include_authorized_operations: bool = field(Bool, "3+")


@struct
class DescribedGroupMember:
    member_id: str = field(String)
    group_instance_id: str | None = field(String, "4+", nullable="4+")
    client_id: str = field(String)
    client_host: str = field(String)
    member_metadata: bytes = field(Bytes)
    member_assignment: bytes = field(Bytes)


@struct
class DescribedGroup:
    error_code: int = field(Int16)
    error_message: str | None = field(String, "6+", nullable="6+")
    group_id: str = field(String)
    group_state: str = field(String)
    protocol_type: str = field(String)
    protocol_data: str = field(String)
    members: list[DescribedGroupMember] = field(Array(DescribedGroupMember))
    authorized_operations: int = field(Int32, "3+", default=NOT_ASKED)


@response(to=DescribeGroupsRequest)
class DescribeGroupsResponse(Response):
    throttle_time_ms: int = field(Int32, "1+")
    groups: list[DescribedGroup] = field(Array(DescribedGroup))
