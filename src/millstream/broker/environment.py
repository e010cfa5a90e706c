"""Everything a broker would otherwise reach for: time, disk, network, threads, chance, the registry."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random, SystemRandom
from typing import TYPE_CHECKING, TypeVar

from millstream.broker.promptness import give_way
from millstream.config import zookeeper
from millstream.config.broker import BACKGROUND_THREADS, BrokerConfig
from millstream.config.network import SOCKET_LISTEN_BACKLOG_SIZE
from millstream.config.setting import SettingError
from millstream.model.clock import Clock, SystemClock
from millstream.model.workers import Workers
from millstream.net.network import Network, TcpNetwork
from millstream.registry.tree import Registry
from millstream.storage.files import Files, OsFiles

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

T = TypeVar("T")

#: How many large batches are written at a time; to copy one more would take the processor from another.
WRITER_THREADS = 2
#: Opens a registry, at this path if it is of the broker's own, and says how to close it.
RegistryOpener = Callable[[str, Workers], Awaitable[tuple[Registry, Callable[[], Awaitable[None]]]]]


@dataclass(frozen=True, slots=True)
class Environment:
    """What a broker stands on; simulation gives it another."""

    clock: Clock
    files: Files
    network: Network
    workers: Workers
    #: Threads that write to memory, and so do not wait behind those that wait for a disk.
    writers: Workers
    #: One thread that gives way to everyone else, for what nobody waits for; it does one thing after the other.
    patient_workers: Workers
    random: Random
    open_registry: RegistryOpener
    #: Called last when the broker stops.
    close: Callable[[], None] = lambda: None


class PoolWorkers:
    """A few threads, and for each call that computes a process that ends with it."""

    def __init__(self, threads: int, prepare: Callable[[], None] | None = None) -> None:
        """``prepare`` is called in each thread before its work."""
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="worker", initializer=prepare)
        self._children: set[SpawnProcess] = set()

    async def in_thread(self, function: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *args)

    async def in_process(self, function: Callable[..., T], *args: object) -> T:
        return await self.in_thread(self._in_child, function, args)

    def close(self) -> None:
        """End the processes, whose work is worth nothing half done; let the threads finish theirs."""
        for child in list(self._children):
            child.kill()
        self._threads.shutdown(wait=True)

    def _in_child(self, function: Callable[..., T], args: tuple[object, ...]) -> T:
        """Start a process, and wait for it in this thread; OSError when it ends without an answer."""
        import multiprocessing  # Slow to import, and few brokers ever need it.

        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=_answer, args=(theirs, function, args), daemon=True)
        with ours:
            child.start()
            theirs.close()
            self._children.add(child)
            try:
                outcome = ours.recv()
            except EOFError:
                raise OSError(f"the process for {function.__name__} ended before its work was done") from None
            finally:
                child.join()
                self._children.discard(child)
        if isinstance(outcome, BaseException):
            raise outcome
        result: T = outcome
        return result


def _answer(connection: "Connection", function: Callable[..., object], args: tuple[object, ...]) -> None:
    """Do the work and send back what came of it."""
    try:
        connection.send(function(*args))
    except Exception as error:
        connection.send(error)
    connection.close()


async def open_embedded(path: str, workers: Workers) -> tuple[Registry, Callable[[], Awaitable[None]]]:
    """The registry in a SQLite file of the broker's own."""
    from millstream.registry.embedded import EmbeddedTree  # Brokers of a cluster need none of it.

    loop = asyncio.get_running_loop()
    tree = EmbeddedTree(path, call_soon=loop.call_soon, workers=workers)
    registry = tree.session()

    async def close() -> None:
        await registry.close()
        await tree.close()

    return registry, close


def registry_opener(config: BrokerConfig) -> RegistryOpener:
    """What opens the registry that the settings name."""
    connect = config.get(zookeeper.ZOOKEEPER_CONNECT)
    if connect is None:
        return open_embedded
    credentials, set_acl = config.get(zookeeper.ZOOKEEPER_DIGEST), config.get(zookeeper.ZOOKEEPER_SET_ACL)
    if set_acl and credentials is None:
        raise SettingError("zookeeper.set.acl=true: nodes need an owner; say who it is with zookeeper.digest")

    async def open_zookeeper(path: str, workers: Workers) -> tuple[Registry, Callable[[], Awaitable[None]]]:
        from millstream.registry.zookeeper.registry import ZooKeeperRegistry  # A broker alone does not pay for kazoo.

        registry = await ZooKeeperRegistry.open(
            zookeeper.parse_ensemble(connect),
            session_timeout_ms=config.get(zookeeper.ZOOKEEPER_SESSION_TIMEOUT_MS),
            connect_timeout_ms=config.get(zookeeper.ZOOKEEPER_CONNECTION_TIMEOUT_MS),
            credentials=credentials,
            set_acl=credentials is not None if set_acl is None else set_acl,
        )
        return registry, registry.close

    return open_zookeeper


def real_environment(config: BrokerConfig) -> Environment:
    """The machine itself, and the registry that the settings name."""
    workers, writers = PoolWorkers(config.get(BACKGROUND_THREADS)), PoolWorkers(WRITER_THREADS)
    patient_workers = PoolWorkers(1, prepare=give_way)

    def close() -> None:
        for pool in (workers, writers, patient_workers):
            pool.close()

    return Environment(
        clock=SystemClock(),
        files=OsFiles(),
        network=TcpNetwork(config.get(SOCKET_LISTEN_BACKLOG_SIZE)),
        workers=workers,
        writers=writers,
        patient_workers=patient_workers,
        random=SystemRandom(),
        open_registry=registry_opener(config),
        close=close,
    )
