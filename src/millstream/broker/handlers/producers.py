"""InitProducerId (API 22): an id for an idempotent producer."""

import logging

from millstream.broker.broker import Broker
from millstream.broker.connection import Call
from millstream.broker.refusals import REFUSALS
from millstream.model.errors import ErrorCode
from millstream.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

logger = logging.getLogger(__name__)


async def init_producer_id(broker: Broker, request: InitProducerIdRequest, call: Call) -> InitProducerIdResponse:
    """A new id at epoch 0; without a transactional id there is nothing to come back to.

    Where the registry cannot give out ids the client is told to ask again: any other error ends a producer for good.
    """
    if request.transactional_id is not None:
        return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    try:
        producer_id = await broker.producer_ids.next()
    except REFUSALS:
        logger.warning("no producer id could be given out", exc_info=True)
        return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
