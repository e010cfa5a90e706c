"""A registry whose disk fails on demand."""

from collections.abc import Awaitable, Callable
from typing import Any

from millstream.model.workers import Workers
from millstream.registry.tree import Registry, RegistryFailure
from tests.simulation.broker import SimBroker

WRITES = frozenset({"create", "set", "delete", "multi"})


class FailingRegistry:
    """Passes every call on; while ``is_failing``, writes are refused as a full disk refuses them."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.is_failing = False

    def __getattr__(self, name: str) -> Any:
        if self.is_failing and name in WRITES:
            return self._fail
        return getattr(self._registry, name)

    async def _fail(self, *args: object, **options: object) -> None:
        raise RegistryFailure("/", "database or disk is full")


class BrokerOnFailingRegistry(SimBroker):
    """A broker whose registry can be made to fail."""

    registry: FailingRegistry

    async def _open_registry(self, path: str, workers: Workers) -> tuple[Registry, Callable[[], Awaitable[None]]]:
        registry, close = await super()._open_registry(path, workers)
        self.registry = FailingRegistry(registry)
        return self.registry, close
