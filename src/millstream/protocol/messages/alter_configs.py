"""AlterConfigs (API 33): replace all overrides of a resource; IncrementalAlterConfigs is what clients should use.

v2 is flexible.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Bool, Int8, Int16, Int32, String


@struct
class AlterableConfig:
    name: str = field(String)
    value: str | None = field(String, nullable="0+")


@struct
class AlterConfigsResource:
    resource_type: int = field(Int8)
    resource_name: str = field(String)
    configs: list[AlterableConfig] = field(Array(AlterableConfig))


@request(key=33, versions="0-2", flexible="2+")
class AlterConfigsRequest(Request):
    resources: list[AlterConfigsResource] = field(Array(AlterConfigsResource))
    validate_only: bool = field(Bool)


@struct
class AlterConfigsResourceResponse:
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable="0+")
    resource_type: int = field(Int8)
    resource_name: str = field(String)


@response(to=AlterConfigsRequest)
class AlterConfigsResponse(Response):
    throttle_time_ms: int = field(Int32)
    responses: list[AlterConfigsResourceResponse] = field(Array(AlterConfigsResourceResponse))
