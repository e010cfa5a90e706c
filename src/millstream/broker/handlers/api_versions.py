"""ApiVersions (API 18): what this broker serves."""

import re

from millstream.broker.broker import Broker
from millstream.broker.channels import BROKER_SOFTWARE
from millstream.broker.connection import Call
from millstream.model.errors import ErrorCode
from millstream.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

#: From here on a client says what it is.
NAMED_FROM = 3
#: From here on a feature may say that it can be switched off: its minimum is 0.
ZERO_FROM = 4
#: What the cluster does that clients ask of it by name, each at the one level we speak.  Nothing is ever switched off,
#: so the list stays what it was in its first edition.
FEATURES = {"group.version": 1, "transaction.version": 2}
FEATURES_EPOCH = 0
_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


async def handle(broker: Broker, request: ApiVersionsRequest, call: Call) -> ApiVersionsResponse:
    """Everything in the table of routes; a client whose name could not stand in a log or a metric is refused."""
    if call.version >= NAMED_FROM and not (
        _NAME.fullmatch(request.client_software_name) and _NAME.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    if request.client_software_name == BROKER_SOFTWARE:
        call.connection.is_broker = True
    lowest = 0 if call.version >= ZERO_FROM else 1
    return ApiVersionsResponse(
        api_keys=broker.versions_for_brokers if call.connection.is_broker else broker.advertised_versions,
        supported_features=[
            SupportedFeatureKey(name=name, min_version=lowest, max_version=level) for name, level in FEATURES.items()
        ],
        finalized_features_epoch=FEATURES_EPOCH,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in FEATURES.items()
        ],
    )
