"""DeleteGroups (API 42): forget groups that are empty, with their offsets.

v2 is flexible.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Int16, Int32, String


@request(key=42, versions="0-2", flexible="2+")
class DeleteGroupsRequest(Request):
    groups_names: list[str] = field(Array(String))


@struct
class DeletableGroupResult:
    group_id: str = field(String)
    error_code: int = field(Int16)


@response(to=DeleteGroupsRequest)
class DeleteGroupsResponse(Response):
    throttle_time_ms: int = field(Int32)
    results: list[DeletableGroupResult] = field(Array(DeletableGroupResult))
