"""Log directories that failed: their broker leaves a notice in the registry, as Kafka's do.

It names the broker alone.  The controller tells that broker its roles once more, and is answered which it cannot have.
"""

from collections.abc import Collection

from millstream.controller.context import Context
from millstream.controller.requests import Decision, Lead
from millstream.registry.nodes import LOG_DIR_EVENT, LOG_DIR_EVENTS
from millstream.registry.tree import Check, Delete, Registry


async def leave_notice(registry: Registry, broker_id: int) -> None:
    """A directory of this broker failed."""
    await registry.create(LOG_DIR_EVENT.path(""), LOG_DIR_EVENT.encode(broker_id), sequence=True)


async def take_notices(registry: Registry, fence: Check) -> set[int]:
    """The brokers that left notices, which go."""
    paths = [f"{LOG_DIR_EVENTS.path()}/{name}" for name in await registry.children(LOG_DIR_EVENTS.path())]
    nodes = await registry.get_many(paths)
    if paths:
        await registry.multi([fence, *(Delete(path) for path in paths)])
    return {LOG_DIR_EVENT.decode(node.data, "") for node in nodes if node is not None}


def tell_again(context: Context, brokers: Collection[int]) -> Decision:
    """Each of these brokers is told all its roles."""
    decision = Decision()
    for key, partition in context.lasting_partitions():
        told = tuple(replica for replica in partition.replicas if replica in brokers and replica in context.brokers)
        if told:
            decision.leads.append(Lead(key, told))
    return decision
