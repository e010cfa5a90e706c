"""Who is controller: whoever makes the ephemeral node /controller, in one transaction with a new epoch.

Everything a controller writes checks the version of /controller_epoch, so from the moment another is elected the
one before can change nothing.
"""

from typing import NamedTuple

from millstream.model.clock import Clock
from millstream.registry.nodes import CONTROLLER, CONTROLLER_EPOCH, ControllerClaim
from millstream.registry.tree import BadVersion, Create, NodeExists, NoNode, Registry, Set, Stat

_FIRST_EPOCH = 0


class Mandate(NamedTuple):
    """An election that was won: the epoch, and the version of its node that fences whoever was before."""

    epoch: int
    epoch_version: int


class Sitting(NamedTuple):
    """Who is controller now, and whether that claim was made in our own session."""

    broker_id: int
    is_ours: bool


class Election:
    """One broker's candidacy."""

    def __init__(self, broker_id: int, registry: Registry, clock: Clock) -> None:
        self._broker_id = broker_id
        self._registry = registry
        self._clock = clock

    async def sitting(self) -> Sitting | None:
        """Who is controller, or None when nobody is."""
        try:
            node = await self._registry.get(CONTROLLER.path())
        except NoNode:
            return None
        claim = CONTROLLER.decode(node.data)
        return Sitting(claim.broker_id, node.ephemeral_owner == self._registry.session_id)

    async def stand(self) -> Mandate | None:
        """Become controller under a new epoch, or None when another was quicker."""
        epoch, version = await self._last_epoch()
        claim = ControllerClaim(self._broker_id, self._clock.now_ms())
        try:
            outcomes = await self._registry.multi(
                [
                    Create(CONTROLLER.path(), CONTROLLER.encode(claim), ephemeral=True),
                    Set(CONTROLLER_EPOCH.path(), CONTROLLER_EPOCH.encode(epoch + 1), version),
                ]
            )
        except (NodeExists, BadVersion):
            return None
        stat = outcomes[1]
        assert isinstance(stat, Stat)
        return Mandate(epoch + 1, stat.version)

    async def step_down(self) -> None:
        """Take our own claim back, so that others need not wait for the session to end."""
        sitting = await self.sitting()
        if sitting is not None and sitting.is_ours:
            try:
                await self._registry.delete(CONTROLLER.path())
            except NoNode:
                return

    async def _last_epoch(self) -> tuple[int, int]:
        while True:
            try:
                node = await self._registry.get(CONTROLLER_EPOCH.path())
                return CONTROLLER_EPOCH.decode(node.data), node.version
            except NoNode:
                try:
                    await self._registry.create(CONTROLLER_EPOCH.path(), CONTROLLER_EPOCH.encode(_FIRST_EPOCH))
                except NodeExists:
                    continue
