"""IncrementalAlterConfigs (API 44): set, delete, append to or subtract from single settings.

v1 is flexible.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Bool, Int8, Int16, Int32, String


@struct
class AlterableConfig:
    name: str = field(String)
    config_operation: int = field(Int8)  # 0: set, 1: delete, 2: append, 3: subtract
    value: str | None = field(String, nullable="0+")


@struct
class AlterConfigsResource:
    resource_type: int = field(Int8)
    resource_name: str = field(String)
    configs: list[AlterableConfig] = field(Array(AlterableConfig))


@request(key=44, versions="0-1", flexible="1+")
class IncrementalAlterConfigsRequest(Request):
    resources: list[AlterConfigsResource] = field(Array(AlterConfigsResource))
    validate_only: bool = field(Bool)


@struct
class AlterConfigsResourceResponse:
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable="0+")
    resource_type: int = field(Int8)
    resource_name: str = field(String)


@response(to=IncrementalAlterConfigsRequest)
class IncrementalAlterConfigsResponse(Response):
    throttle_time_ms: int = field(Int32)
    responses: list[AlterConfigsResourceResponse] = field(Array(AlterConfigsResourceResponse))
