"""Producer ids for the clients of this broker, handed out one by one from blocks of the registry."""

import asyncio
import logging
from collections import deque

from millstream.model.errors import ErrorCode, ProtocolError
from millstream.registry.producer_ids import allocate_block
from millstream.registry.tree import Registry, RegistryError

logger = logging.getLogger(__name__)

#: How many are kept at hand for whoever cannot wait.
SPARE = 100


class ProducerIds:
    """Ids that no producer of the cluster was ever given."""

    def __init__(self, registry: Registry, broker_id: int) -> None:
        self._registry = registry
        self._broker_id = broker_id
        self._blocks: deque[range] = deque()
        self._count = 0
        self._lock = asyncio.Lock()

    async def next(self) -> int:
        """An id of its own, or the refusal that there is none now."""
        await self.stock()
        return self.take()

    async def stock(self) -> None:
        """Have ids at hand, if the registry gives any; costs nothing while there are."""
        if self._count > SPARE:
            return
        async with self._lock:
            if self._count > SPARE:
                return
            try:
                block = await allocate_block(self._registry, self._broker_id)
            except RegistryError:
                logger.warning("no producer ids could be had from the registry", exc_info=True)
                return
            self._blocks.append(range(block.first, block.last + 1))
            self._count += block.last + 1 - block.first

    def take(self) -> int:
        """One of those at hand; refused when there is none, so that whoever asks tries again later."""
        if not self._count:
            raise ProtocolError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no producer id is at hand")
        block = self._blocks.popleft()
        if len(block) > 1:
            self._blocks.appendleft(block[1:])
        self._count -= 1
        return block[0]
