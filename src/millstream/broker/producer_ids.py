"""Producer ids for the clients of this broker, handed out one by one from blocks of the registry."""

import asyncio

from millstream.registry.producer_ids import allocate_block
from millstream.registry.tree import Registry


class ProducerIds:
    """Ids that no producer of the cluster was ever given."""

    def __init__(self, registry: Registry, broker_id: int) -> None:
        self._registry = registry
        self._broker_id = broker_id
        self._left = iter(range(0))
        self._lock = asyncio.Lock()

    async def next(self) -> int:
        """An id of its own."""
        async with self._lock:
            for producer_id in self._left:
                return producer_id
            block = await allocate_block(self._registry, self._broker_id)
            self._left = iter(range(block.first, block.last + 1))
            return next(self._left)
