"""InitProducerId (API 22): an id for an idempotent producer; DescribeProducers (API 61): who writes to a partition."""

import logging

from millstream.broker.broker import Broker
from millstream.broker.connection import Call
from millstream.broker.handlers import transactions
from millstream.broker.refusals import REFUSALS
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from millstream.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from millstream.replication.producer_rows import producer_rows

logger = logging.getLogger(__name__)


async def init_producer_id(broker: Broker, request: InitProducerIdRequest, call: Call) -> InitProducerIdResponse:
    """A new id at epoch 0; without a transactional id there is nothing to come back to.

    Where the registry cannot give out ids the client is told to ask again: any other error ends a producer for good.
    """
    if request.transactional_id is not None:
        return await transactions.init_producer_id(broker, request, call)
    try:
        producer_id = await broker.producer_ids.next()
    except REFUSALS:
        logger.warning("no producer id could be given out", exc_info=True)
        return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


async def describe_producers(
    broker: Broker, request: DescribeProducersRequest, call: Call
) -> DescribeProducersResponse:
    """What each partition led here remembers of its producers."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name, partitions=[_known(broker, topic.name, at) for at in topic.partition_indexes]
            )
            for topic in request.topics
        ]
    )


def _known(broker: Broker, topic: str, index: int) -> PartitionResponse:
    try:
        rows = producer_rows(broker.replicas.find(topic, index))
    except ProtocolError as refusal:
        return PartitionResponse(
            partition_index=index, error_code=refusal.code, error_message=refusal.detail or refusal.code.name
        )
    return PartitionResponse(partition_index=index, active_producers=[ProducerState(**row._asdict()) for row in rows])
