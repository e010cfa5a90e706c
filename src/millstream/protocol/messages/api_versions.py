"""ApiVersions (API 18): what this broker speaks, the first thing a client asks.

v1 adds the throttle time; v3 is flexible (but never its response header), names the client's software and lists
features; v4 lets a feature's minimum be 0.
"""

from millstream.protocol.schema import Request, Response, field, request, response, struct
from millstream.protocol.types import Array, Bool, Int16, Int32, Int64, String


@request(key=18, versions="0-4", flexible="3+")
class ApiVersionsRequest(Request):
    client_software_name: str = field(String, "3+")
    client_software_version: str = field(String, "3+")


@struct
class ApiVersion:
    api_key: int = field(Int16)
    min_version: int = field(Int16)
    max_version: int = field(Int16)


@struct
class SupportedFeatureKey:
    name: str = field(String)
    min_version: int = field(Int16)
    max_version: int = field(Int16)


@struct
class FinalizedFeatureKey:
    name: str = field(String)
    max_version_level: int = field(Int16)
    min_version_level: int = field(Int16)


@response(to=ApiVersionsRequest)
class ApiVersionsResponse(Response):
    error_code: int = field(Int16)
    api_keys: list[ApiVersion] = field(Array(ApiVersion))
    throttle_time_ms: int = field(Int32, "1+")
    supported_features: list[SupportedFeatureKey] = field(Array(SupportedFeatureKey), "3+", tag=0)
    finalized_features_epoch: int = field(Int64, "3+", default=-1, tag=1)
    finalized_features: list[FinalizedFeatureKey] = field(Array(FinalizedFeatureKey), "3+", tag=2)
    zk_migration_ready: bool = field(Bool, "3+", tag=3)
