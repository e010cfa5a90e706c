"""ApiVersions (API 18): what this broker serves."""

from millstream.broker.broker import Broker
from millstream.broker.connection import Call
from millstream.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse


async def handle(broker: Broker, request: ApiVersionsRequest, call: Call) -> ApiVersionsResponse:
    """Everything in the table of routes."""
    return ApiVersionsResponse(api_keys=broker.advertised_versions)
