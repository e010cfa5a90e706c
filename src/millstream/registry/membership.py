"""How a broker joins: the lasting nodes, the cluster's id, and the broker's own registration."""

import random

from millstream.model.ids import uuid_text
from millstream.registry.nodes import BROKER, CLUSTER_ID, LASTING_PATHS, BrokerRegistration
from millstream.registry.tree import Create, NodeExists, NoNode, Registry, RegistryFailure


async def lay_out(registry: Registry) -> None:
    """Make the nodes that are always there, where they are missing; in one transaction, for each costs an fsync."""
    while True:
        wanted = [path for path in LASTING_PATHS if await registry.exists(path) is None]
        if not wanted:
            return
        try:
            await registry.multi([Create(path) for path in wanted])
        except NodeExists:
            continue  # Another broker starts at the same time.


async def cluster_id(registry: Registry, generator: random.Random, known: str | None = None) -> str:
    """The id of the cluster; the first broker to ask makes it, or takes over the one its directories know."""
    try:
        return CLUSTER_ID.decode((await registry.get(CLUSTER_ID.path())).data)
    except NoNode:
        made = known or uuid_text(generator.randbytes(16))
    try:
        await registry.create(CLUSTER_ID.path(), CLUSTER_ID.encode(made))
    except NodeExists:
        return CLUSTER_ID.decode((await registry.get(CLUSTER_ID.path())).data)
    return made


async def register_broker(registry: Registry, broker_id: int, registration: BrokerRegistration) -> int:
    """Announce a broker for as long as its session lasts; its broker epoch, which rises with every registration.

    RegistryFailure when another live broker has the id.
    """
    path = BROKER.path(broker_id)
    try:
        return (await registry.create(path, BROKER.encode(registration), ephemeral=True)).stat.czxid
    except NodeExists:
        stat = await registry.exists(path)
        if stat is not None and stat.ephemeral_owner == registry.session_id:
            return stat.czxid  # Ours: the answer to an earlier attempt was lost.
        raise RegistryFailure(
            path, f"broker id {broker_id} is taken by a running broker; stop it, or give this one another id"
        ) from None
