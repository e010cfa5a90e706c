"""DeleteTopics (API 20): delete topics by name, and from v6 by id.

v4 is flexible; v5 explains refusals; v6 puts names and ids into one list.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Int16, Int32, String, Uuid


@struct
class DeleteTopicState:
    name: str | None = field(String, nullable="0+")
    topic_id: bytes = field(Uuid)


@request(key=20, versions="1-6", flexible="4+")
class DeleteTopicsRequest(Request):
    topics: list[DeleteTopicState] = field(Array(DeleteTopicState), "6+")
    topic_names: list[str] = field(Array(String), "0-5")
    timeout_ms: int = field(Int32)


@struct
class DeletableTopicResult:
    name: str | None = field(String, nullable="6+")
    topic_id: bytes = field(Uuid, "6+")
    error_code: int = field(Int16)
    error_message: str | None = field(String, "5+", nullable="5+")


@response(to=DeleteTopicsRequest)
class DeleteTopicsResponse(Response):
    throttle_time_ms: int = field(Int32)
    responses: list[DeletableTopicResult] = field(Array(DeletableTopicResult))
