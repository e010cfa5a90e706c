"""This broker in the registry: announced when it starts, and again whenever its node is gone."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from millstream.registry.membership import register_broker
from millstream.registry.nodes import BROKER, BrokerRegistration
from millstream.registry.tree import Registry, RegistryError, Watch

_log = logging.getLogger(__name__)

#: How long to wait before another attempt, at first and at most.
BACKOFF_S = 0.1
BACKOFF_S_MAX = 2.0


class Registration:
    """Keeps a broker registered until it is closed; each registration gives it a new epoch."""

    def __init__(
        self,
        registry: Registry,
        broker_id: int,
        describe: Callable[[bool], BrokerRegistration],
        on_registered: Callable[[int], None],
        is_heeded: Callable[[], bool],
    ) -> None:
        """``describe`` is told whether the broker has all that it ever had; ``on_registered`` gets the epoch;
        ``is_heeded`` says whether a controller has spoken to this life, and so knows how it began.
        """
        self._registry = registry
        self._broker_id = broker_id
        self._describe = describe
        self._on_registered = on_registered
        self._is_heeded = is_heeded
        self._began_clean = False
        self._epoch = -1
        self._watch: Watch | None = None
        self._is_checked = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    async def start(self, *, is_clean: bool, patience_s: float) -> None:
        """Register; a node of the same id that another session left behind is waited for to go.

        RegistryFailure when it stays.
        """
        self._watch = await self._registry.watch(self._path, self._is_checked.set)
        if await self._is_taken():
            _log.warning(
                "broker id %d is registered already: waiting for up to %.0f s, in case this broker crashed",
                self._broker_id,
                patience_s,
            )
            with suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    while await self._is_taken():
                        await self._is_checked.wait()
                        self._is_checked.clear()
        self._began_clean = is_clean
        await self._register(is_clean)
        self._registry.on_session_expired(self._is_checked.set)
        self._keeper = asyncio.create_task(self._keep())

    async def close(self) -> None:
        """Register no more; the node goes with the session."""
        if self._watch is not None:
            self._watch.cancel()
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])

    @property
    def _path(self) -> str:
        return BROKER.path(self._broker_id)

    async def _is_taken(self) -> bool:
        stat = await self._registry.exists(self._path)
        return stat is not None and stat.ephemeral_owner != self._registry.session_id

    async def _keep(self) -> None:
        backoff_s = BACKOFF_S
        while True:
            await self._is_checked.wait()
            self._is_checked.clear()
            try:
                stat = await self._registry.exists(self._path)
                if stat is not None and stat.czxid == self._epoch:
                    continue
                # In the same life nothing is lost; but what was lost before it must have been heard of.
                await self._register(self._began_clean or self._is_heeded())
                backoff_s = BACKOFF_S
            except RegistryError as error:
                _log.warning("broker %d cannot register anew yet: %s", self._broker_id, error)
                await asyncio.sleep(backoff_s)
                backoff_s = min(backoff_s * 2, BACKOFF_S_MAX)
                self._is_checked.set()

    async def _register(self, is_clean: bool) -> None:
        self._epoch = await register_broker(self._registry, self._broker_id, self._describe(is_clean))
        _log.info("broker %d is registered, epoch %d", self._broker_id, self._epoch)
        self._on_registered(self._epoch)
