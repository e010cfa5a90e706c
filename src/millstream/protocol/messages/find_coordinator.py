"""FindCoordinator (API 10): which broker keeps a group or a transactional id.

v1 added the kind of key, v3 is flexible, v4 asks for several keys at once; v5 allows a new error and v6 a new kind.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Int8, Int16, Int32, String


@request(key=10, versions="0-6", flexible="3+")
class FindCoordinatorRequest(Request):
    key: str = field(String, "0-3")
    key_type: int = field(Int8, "1+")  # 0: group, 1: transaction, 2: share group
    coordinator_keys: list[str] = field(Array(String), "4+")


@struct
class Coordinator:
    key: str = field(String, "4+")
    node_id: int = field(Int32, "4+")
    host: str = field(String, "4+")
    port: int = field(Int32, "4+")
    error_code: int = field(Int16, "4+")
    error_message: str | None = field(String, "4+", nullable="4+")


@response(to=FindCoordinatorRequest)
class FindCoordinatorResponse(Response):
    throttle_time_ms: int = field(Int32, "1+")
    error_code: int = field(Int16, "0-3")
    error_message: str | None = field(String, "1-3", nullable="1-3")
    node_id: int = field(Int32, "0-3")
    host: str = field(String, "0-3")
    port: int = field(Int32, "0-3")
    coordinators: list[Coordinator] = field(Array(Coordinator), "4+")
