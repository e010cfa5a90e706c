"""Everything a broker would otherwise reach for: time, disk, network, threads, chance, the registry."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random, SystemRandom
from typing import TYPE_CHECKING, TypeVar

from millstream.model.clock import Clock, SystemClock
from millstream.model.workers import Workers
from millstream.net.network import Network, TcpNetwork
from millstream.registry.embedded import EmbeddedTree
from millstream.registry.tree import Registry
from millstream.storage.files import Files, OsFiles

if TYPE_CHECKING:
    from concurrent.futures import ProcessPoolExecutor

T = TypeVar("T")

#: Opens the registry kept at a path, and says how to close it.
RegistryOpener = Callable[[str, Workers], Awaitable[tuple[Registry, Callable[[], Awaitable[None]]]]]


@dataclass(frozen=True, slots=True)
class Environment:
    """What a broker stands on; simulation gives it another."""

    clock: Clock
    files: Files
    network: Network
    workers: Workers
    random: Random
    open_registry: RegistryOpener
    #: Called last when the broker stops.
    close: Callable[[], None] = lambda: None


class PoolWorkers:
    """A few threads, and one process of the lowest priority that lives only while it has work."""

    def __init__(self, threads: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="worker")
        self._process: ProcessPoolExecutor | None = None
        self._jobs = 0

    async def in_thread(self, function: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *args)

    async def in_process(self, function: Callable[..., T], *args: object) -> T:
        import multiprocessing  # Slow to import, and few brokers ever need it.
        from concurrent.futures import ProcessPoolExecutor

        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._process = ProcessPoolExecutor(1, mp_context=context, initializer=_yield_to_others)
        self._jobs += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._process, function, *args)
        finally:
            self._jobs -= 1
            if self._jobs == 0 and self._process is not None:
                self._process.shutdown(wait=False)
                self._process = None

    def close(self) -> None:
        """Let running jobs end; start no more."""
        self._threads.shutdown(wait=True)
        if self._process is not None:
            self._process.shutdown(wait=False, cancel_futures=True)


def _yield_to_others() -> None:
    """Make this process the last to be served."""
    os.nice(19)


async def open_embedded(path: str, workers: Workers) -> tuple[Registry, Callable[[], Awaitable[None]]]:
    """The registry in a SQLite file of the broker's own."""
    loop = asyncio.get_running_loop()
    tree = EmbeddedTree(path, call_soon=loop.call_soon, workers=workers)
    registry = tree.session()

    async def close() -> None:
        await registry.close()
        await tree.close()

    return registry, close


def real_environment(threads: int, backlog: int) -> Environment:
    """The machine itself."""
    workers = PoolWorkers(threads)
    return Environment(
        clock=SystemClock(),
        files=OsFiles(),
        network=TcpNetwork(backlog),
        workers=workers,
        random=SystemRandom(),
        open_registry=open_embedded,
        close=workers.close,
    )
