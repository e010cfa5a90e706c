"""DescribeConfigs (API 32): the settings of topics and brokers, and where each value comes from.

v1 lists synonyms; v3 adds types and documentation; v4 is flexible.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Bool, Int8, Int16, Int32, String


@struct
class DescribeConfigsResource:
    resource_type: int = field(Int8)
    resource_name: str = field(String)
    configuration_keys: list[str] | None = field(Array(String), nullable="0+")  # None: all of them


@request(key=32, versions="1-4", flexible="4+")
class DescribeConfigsRequest(Request):
    resources: list[DescribeConfigsResource] = field(Array(DescribeConfigsResource))
    include_synonyms: bool = field(Bool)
    include_documentation: bool = field(Bool, "3+")


@struct
class DescribeConfigsSynonym:
    name: str = field(String)
    value: str | None = field(String, nullable="0+")
    source: int = field(Int8)


@struct
class DescribeConfigsResourceResult:
    name: str = field(String)
    value: str | None = field(String, nullable="0+")
    read_only: bool = field(Bool)
    config_source: int = field(Int8, default=-1)
    is_sensitive: bool = field(Bool)
    synonyms: list[DescribeConfigsSynonym] = field(Array(DescribeConfigsSynonym))
    config_type: int = field(Int8, "3+")
    documentation: str | None = field(String, "3+", nullable="3+")


@struct
class DescribeConfigsResult:
    error_code: int = field(Int16)
    error_message: str | None = field(String, nullable="0+")
    resource_type: int = field(Int8)
    resource_name: str = field(String)
    configs: list[DescribeConfigsResourceResult] = field(Array(DescribeConfigsResourceResult))


@response(to=DescribeConfigsRequest)
class DescribeConfigsResponse(Response):
    throttle_time_ms: int = field(Int32)
    results: list[DescribeConfigsResult] = field(Array(DescribeConfigsResult))
