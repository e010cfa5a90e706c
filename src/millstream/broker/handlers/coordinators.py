"""FindCoordinator (API 10): which broker keeps a group or a transactional id."""

from millstream.broker.broker import Broker
from millstream.broker.connection import Call
from millstream.broker.coordinators import GROUPS, TRANSACTIONS
from millstream.broker.refusals import REFUSALS, refusal
from millstream.model.errors import ErrorCode
from millstream.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

NOBODY = -1
#: From here on several keys are asked for at once.
SEVERAL_FROM = 4
#: The internal topic by the kind of key.
TOPICS = {0: GROUPS, 1: TRANSACTIONS}


async def find(broker: Broker, request: FindCoordinatorRequest, call: Call) -> FindCoordinatorResponse:
    """For each key its broker, or why there is none."""
    if call.version >= SEVERAL_FROM:
        return FindCoordinatorResponse(
            coordinators=[await _find(broker, request.key_type, key, call) for key in request.coordinator_keys]
        )
    found = await _find(broker, request.key_type, request.key, call)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


async def _find(broker: Broker, key_type: int, key: str, call: Call) -> Coordinator:
    topic = TOPICS.get(key_type)
    if topic is None:
        return _nobody(key, ErrorCode.INVALID_REQUEST, f"keys of type {key_type} are not coordinated here")
    try:
        endpoint = await broker.coordinators.find(topic, key, call.connection.listener)
    except REFUSALS as error:
        code, message = refusal(error)
        # Whatever stands in the way of making the topic passes: the client asks again.
        return _nobody(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, message or code.name)
    return Coordinator(key=key, node_id=endpoint.broker_id, host=endpoint.host, port=endpoint.port)


def _nobody(key: str, code: ErrorCode, message: str) -> Coordinator:
    return Coordinator(key=key, node_id=NOBODY, port=NOBODY, error_code=code, error_message=message)
