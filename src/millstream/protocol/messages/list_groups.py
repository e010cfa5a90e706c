"""ListGroups (API 16): the groups a broker coordinates.

v1 adds the throttle time; v3 is flexible; v4 shows and filters by state; v5 by type.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Int16, Int32, String


@request(key=16, versions="0-5", flexible="3+")
class ListGroupsRequest(Request):
    states_filter: list[str] = field(Array(String), "4+")
    types_filter: list[str] = field(Array(String), "5+")


@struct
class ListedGroup:
    group_id: str = field(String)
    protocol_type: str = field(String)
    group_state: str = field(String, "4+")
    group_type: str = field(String, "5+")


@response(to=ListGroupsRequest)
class ListGroupsResponse(Response):
    throttle_time_ms: int = field(Int32, "1+")
    error_code: int = field(Int16)
    groups: list[ListedGroup] = field(Array(ListedGroup))
