"""Who is controller: whoever makes the ephemeral node /controller, in one transaction with a new epoch.

Everything a controller writes checks the version of /controller_epoch, so from the moment another is elected the
one before can change nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple

from millstream.model.clock import Clock
from millstream.registry.nodes import BROKER, CONTROLLER, CONTROLLER_EPOCH, ControllerClaim
from millstream.registry.tree import BadVersion, Create, Delete, NodeExists, NoNode, Op, Registry, Set, Stat

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
        return await self._claim(await self._last_epoch())

    async def unseat(self, controller_id: int) -> Mandate | None:
        """Become controller in place of ``controller_id``, which seems dead; None when it no longer was controller.

        Its claim goes, with its registration as a broker if that was made by the same process.  If it lives after
        all it has lost its office and must register anew, and no more: the epoch that its writes check has risen.
        """
        last = await self._last_epoch()  # First: whoever is elected after this makes the claim below fail.
        registration = BROKER.path(controller_id)
        claim, broker = await self._registry.get_many([CONTROLLER.path(), registration])
        if claim is None or CONTROLLER.decode(claim.data).broker_id != controller_id:
            return None
        gone: list[Op] = [Delete(CONTROLLER.path())]
        if broker is not None and broker.ephemeral_owner == claim.ephemeral_owner:
            gone.append(Delete(registration))
        return await self._claim(last, gone)

    async def _claim(self, last: Mandate, gone: Sequence[Op] = ()) -> Mandate | None:
        claim = ControllerClaim(self._broker_id, self._clock.now_ms())
        epoch = last.epoch + 1
        try:
            outcomes = await self._registry.multi(
                [
                    *gone,
                    Create(CONTROLLER.path(), CONTROLLER.encode(claim), ephemeral=True),
                    Set(CONTROLLER_EPOCH.path(), CONTROLLER_EPOCH.encode(epoch), last.epoch_version),
                ]
            )
        except (NodeExists, BadVersion, NoNode):
            return None
        stat = outcomes[-1]
        assert isinstance(stat, Stat)
        return Mandate(epoch, stat.version)

    async def step_down(self) -> None:
        """Take our own claim back, so that others need not wait for the session to end."""
        sitting = await self.sitting()
        if sitting is not None and sitting.is_ours:
            try:
                await self._registry.delete(CONTROLLER.path())
            except NoNode:
                return

    async def _last_epoch(self) -> Mandate:
        while True:
            try:
                node = await self._registry.get(CONTROLLER_EPOCH.path())
                return Mandate(CONTROLLER_EPOCH.decode(node.data), node.version)
            except NoNode:
                try:
                    await self._registry.create(CONTROLLER_EPOCH.path(), CONTROLLER_EPOCH.encode(_FIRST_EPOCH))
                except NodeExists:
                    continue
