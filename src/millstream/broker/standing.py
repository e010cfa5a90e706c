"""Whether this broker surely still leads what it was told to lead."""

import asyncio
import math
from contextlib import suppress

from millstream.model.clock import Clock
from millstream.registry.nodes import BROKER
from millstream.registry.tree import Registry, RegistryError
from millstream.replication.replicas import Replicas

#: Which part of a session's time a word of the registry counts for: less than all, for it may hear of us late.
LEASE = 2 / 3
#: How often the registry is asked within the time its word counts for.
ASKED = 4


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

    async def _keep(self, lease_s: float) -> None:
        while True:
            began_s = self._clock.monotonic_s()
            with suppress(RegistryError):
                stat = await self._registry.exists(self._path)
                if stat is not None and stat.czxid == self._replicas.broker_epoch:
                    self._sure_until_s = began_s + lease_s
            await asyncio.sleep(lease_s / ASKED)
