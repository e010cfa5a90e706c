"""Whether this broker surely still leads what it was told to lead."""

import asyncio
import math
from contextlib import suppress

from millstream.model.clock import Clock
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.registry.nodes import BROKER
from millstream.registry.tree import Registry, RegistryError
from millstream.replication.replicas import Replicas

#: Which part of a session's time a word of the registry counts for: less than all, for it may hear of us late.
LEASE = 2 / 3
#: How often the registry is asked within the time its word counts for.
ASKED = 4
#: What only the one who leads can know, and clients take for good: a producer gives up, a consumer starts over.
FOR_GOOD = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.OFFSET_OUT_OF_RANGE})


class Standing:
    """Sure while the registry has lately confirmed our registration, and the controller has spoken to us since it.

    Others may lead what we lead once our session is over, which a process that was paused, or is cut off, cannot know.
    Whoever is not sure acknowledges only what the in-sync replicas have: that is right whoever leads.
    """

    __slots__ = ("_clock", "_keeper", "_lease_s", "_path", "_registry", "_replicas", "_sure_until_s")

    def __init__(
        self, registry: Registry, broker_id: int, replicas: Replicas, clock: Clock, session_s: float | None
    ) -> None:
        """``session_s`` is None where sessions do not end by silence."""
        self._registry = registry
        self._path = BROKER.path(broker_id)
        self._replicas = replicas
        self._clock = clock
        self._lease_s = None if session_s is None else session_s * LEASE
        self._sure_until_s = math.inf if session_s is None else -math.inf
        self._keeper: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Have the registration confirmed again and again."""
        if self._lease_s is not None:
            self._keeper = asyncio.create_task(self._keep(self._lease_s))

    async def close(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])

    def is_sure(self) -> bool:
        is_told = self._replicas.told_epoch >= self._replicas.broker_epoch
        return is_told and self._clock.monotonic_s() < self._sure_until_s

    def vouched(self, refusal: ProtocolError) -> ProtocolError:
        """The refusal as it may be told: whoever may have been replaced may lack what another has."""
        if refusal.code in FOR_GOOD and not self.is_sure():
            return ProtocolError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this broker is cut off, and may lead no more")
        return refusal

    async def _keep(self, lease_s: float) -> None:
        while True:
            began_s = self._clock.monotonic_s()
            with suppress(RegistryError):
                stat = await self._registry.exists(self._path)
                if stat is not None and stat.czxid == self._replicas.broker_epoch:
                    self._sure_until_s = began_s + lease_s
            await asyncio.sleep(lease_s / ASKED)
