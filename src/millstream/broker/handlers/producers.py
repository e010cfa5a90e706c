"""InitProducerId (API 22): an id for an idempotent producer."""

from millstream.broker.broker import Broker
from millstream.broker.connection import Call
from millstream.model.errors import ErrorCode
from millstream.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


async def init_producer_id(broker: Broker, request: InitProducerIdRequest, call: Call) -> InitProducerIdResponse:
    """A new id at epoch 0; without a transactional id there is nothing to come back to."""
    if request.transactional_id is not None:
        return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return InitProducerIdResponse(producer_id=await broker.producer_ids.next(), producer_epoch=0)
