"""Controlled shutdown: a broker that stops first has others lead what it leads, and clients know them."""

import asyncio
import logging
from typing import TYPE_CHECKING

from millstream.config import cluster
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from millstream.replication.role import Part

if TYPE_CHECKING:
    from millstream.broker.broker import Broker

_log = logging.getLogger(__name__)

#: How long the controller may take to be found and to decide.
TIMEOUT_MS = 5_000


async def hand_over(broker: "Broker") -> None:
    """Ask the controller for other leaders, again while a partition has none to take over; then stop all the same."""
    config = broker.settings.config
    if not config.get(cluster.CONTROLLED_SHUTDOWN_ENABLE):
        return
    for attempt in range(config.get(cluster.CONTROLLED_SHUTDOWN_MAX_RETRIES)):
        if len(broker.cluster.brokers) < 2:
            return  # There is nobody to take over.
        if attempt:
            await asyncio.sleep(config.get(cluster.CONTROLLED_SHUTDOWN_RETRY_BACKOFF_MS) / 1000)
        if await _is_relieved(broker):
            await broker.until_shown(lambda: not _leads(broker))
            return
    _log.warning("broker %d stops while it still leads partitions", broker.id)


async def _is_relieved(broker: "Broker") -> bool:
    request = ControlledShutdownRequest(broker_id=broker.id, broker_epoch=broker.replicas.broker_epoch)
    try:
        async with asyncio.timeout(TIMEOUT_MS / 1000):  # Also where the controller is this broker, and cannot write.
            answer: ControlledShutdownResponse = await broker.ask_controller(request, TIMEOUT_MS)
    except (ProtocolError, TimeoutError) as error:
        _log.warning("broker %d could not ask to be relieved: %s", broker.id, str(error) or "nobody decided in time")
        return False
    if answer.error_code:
        _log.warning("broker %d is not relieved: %s", broker.id, ErrorCode(answer.error_code).name)
    return not answer.error_code and not answer.remaining_partitions


def _leads(broker: "Broker") -> bool:
    """Whether clients are still sent here for a partition that others could lead."""
    return any(
        partition.role.part is Part.LEADER and len(partition.role.leadership.replicas) > 1
        for partition in broker.replicas
    )
