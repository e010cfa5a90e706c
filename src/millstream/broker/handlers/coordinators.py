"""FindCoordinator (API 10): no broker coordinates groups or transactions yet, and clients are told to ask again.

It is answered all the same: librdkafka takes a broker that does not know this API for one that cannot read lz4.
"""

from millstream.broker.broker import Broker
from millstream.broker.connection import Call
from millstream.model.errors import ErrorCode
from millstream.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

NOBODY = -1
CODE = ErrorCode.COORDINATOR_NOT_AVAILABLE
REASON = "consumer groups and transactions are not served yet"


async def find(broker: Broker, request: FindCoordinatorRequest, call: Call) -> FindCoordinatorResponse:
    """Nobody, for every key."""
    return FindCoordinatorResponse(
        error_code=CODE,
        error_message=REASON,
        node_id=NOBODY,
        port=NOBODY,
        coordinators=[
            Coordinator(key=key, node_id=NOBODY, port=NOBODY, error_code=CODE, error_message=REASON)
            for key in request.coordinator_keys
        ],
    )
