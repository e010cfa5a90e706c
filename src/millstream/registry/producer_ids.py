"""Producer ids, unique in the cluster: each broker takes them from the registry in blocks."""

from millstream.registry.nodes import PRODUCER_IDS, ProducerIdBlock
from millstream.registry.tree import BadVersion, NodeExists, NoNode, Registry, RegistryFailure

BLOCK_LENGTH = 1_000
_ID_MAX = 2**63 - 1


async def allocate_block(registry: Registry, broker_id: int) -> ProducerIdBlock:
    """A block of ids that no broker was ever given; some are lost when a broker stops, none comes twice."""
    path = PRODUCER_IDS.path()
    while True:
        try:
            node = await registry.get(path)
            # Made empty at first start.
            first = PRODUCER_IDS.decode(node.data).last + 1 if node.data else 0
            if first > _ID_MAX - BLOCK_LENGTH:
                raise RegistryFailure(path, "all producer ids have been handed out")
            block = ProducerIdBlock(broker_id, first, first + BLOCK_LENGTH - 1)
            await registry.set(path, PRODUCER_IDS.encode(block), node.version)
        except BadVersion:
            continue  # Another broker was quicker; take the next.
        except NoNode:
            await _make(registry, path)
            continue
        return block


async def _make(registry: Registry, path: str) -> None:
    try:
        await registry.create(path)
    except NodeExists:
        return
