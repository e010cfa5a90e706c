"""The brokers of the cluster as the registry shows them: where each is reached, and under which epoch."""

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from millstream.controller.loading import load_brokers
from millstream.net.channel import Address
from millstream.registry.nodes import BROKER_IDS
from millstream.registry.tree import Registry, RegistryError, Watch

_log = logging.getLogger(__name__)


class Neighbour(NamedTuple):
    """Where a broker takes the requests of others, and the registration that says so."""

    address: Address
    epoch: int


class Neighbours:
    """Follows the registrations; whoever is asked for and not known yet is looked up at once."""

    def __init__(self, registry: Registry, listener: str | None) -> None:
        """``listener`` is the one that brokers use among themselves; None for each one's first."""
        self._registry = registry
        self._listener = listener
        self._known: dict[int, Neighbour] = {}
        self._watch: Watch | None = None
        self._reading: asyncio.Task[None] | None = None
        self._is_stale = False
        #: Told of each broker that is gone or registered anew.
        self.on_changed: Callable[[int], None] = lambda broker_id: None

    async def start(self) -> None:
        """Follow from now on."""
        self._watch = await self._registry.watch(BROKER_IDS.path(), self._changed, children=True)

    async def close(self) -> None:
        """Follow no longer."""
        if self._watch is not None:
            self._watch.cancel()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])

    async def find(self, broker_id: int) -> Neighbour:
        """The broker; ConnectionRefusedError when none is registered under that id."""
        if broker_id not in self._known:
            try:
                await self._read()
            except RegistryError as error:
                raise OSError(f"broker {broker_id} cannot be looked up: {error}") from error
        found = self._known.get(broker_id)
        if found is None:
            raise ConnectionRefusedError(f"broker {broker_id} is not registered")
        return found

    def doubt(self, broker_id: int) -> None:
        """The broker was not found where it should be: it is looked up again before it is looked for again."""
        self._known.pop(broker_id, None)

    def _changed(self) -> None:
        self._is_stale = True
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_again())

    async def _read_again(self) -> None:
        try:
            while self._is_stale:
                self._is_stale = False
                await self._read()
        except RegistryError as error:  # What is known may be old: it is looked up again by whoever needs it.
            _log.info("the brokers could not be read: %s", error)
        finally:
            self._reading = None

    async def _read(self) -> None:
        found = {}
        for broker in (await load_brokers(self._registry)).values():
            endpoint = broker.registration.endpoint(self._listener)
            found[broker.broker_id] = Neighbour(Address(endpoint.host, endpoint.port), broker.epoch)
        before, self._known = self._known, found
        for broker_id, neighbour in before.items():
            if found.get(broker_id) != neighbour:
                self.on_changed(broker_id)
