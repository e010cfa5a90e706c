"""ApiVersions (API 18): what this broker serves."""

import re

from millstream.broker.broker import Broker
from millstream.broker.connection import Call
from millstream.model.errors import ErrorCode
from millstream.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

#: From here on a client says what it is.
NAMED_FROM = 3
_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


async def handle(broker: Broker, request: ApiVersionsRequest, call: Call) -> ApiVersionsResponse:
    """Everything in the table of routes; a client whose name could not stand in a log or a metric is refused."""
    if call.version >= NAMED_FROM and not (
        _NAME.fullmatch(request.client_software_name) and _NAME.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return ApiVersionsResponse(api_keys=broker.advertised_versions)
