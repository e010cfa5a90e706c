"""A machine of a simulated cluster: its disk and clock outlive the broker's processes that run on it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import copy_context

from millstream.broker.broker import Broker
from millstream.model.workers import Workers
from millstream.registry.tree import Registry
from tests.simulation.broker import SimBroker
from tests.simulation.cluster.processes import ClusterLoop, Process
from tests.simulation.cluster.registry import Ensemble
from tests.simulation.network import SimNetwork

#: How long whoever starts brokers waits before another attempt, as an init system does.
RESTART_S = 1.0
#: A broker that has not stopped by itself after this is killed.
STOP_PATIENCE_S = 30.0


class Machine(SimBroker):
    """One broker's machine.  ``process`` is the broker's current life, dead or alive."""

    process: Process

    def __init__(
        self,
        loop: ClusterLoop,
        ensemble: Ensemble,
        network: SimNetwork,
        broker_id: int,
        seed: int,
        settings: Mapping[str, str],
        delay_ms_max: float,
    ) -> None:
        self.id = broker_id
        own = {"broker.id": str(broker_id), "log.dirs": "/data/a,/data/b", **settings}
        super().__init__(network, seed, own, delay_ms_max, host=f"broker-{broker_id}")
        self._cluster_loop = loop
        self._ensemble = ensemble
        self.process = Process(loop, self.host)
        self.process.is_dead = True
        #: Whether it serves: everything is started.
        self.is_up = False

    @property
    def serving(self) -> Broker | None:
        """The broker, while it serves and is not paused."""
        return self.broker if self.is_up and not self.process.is_dead and not self.process.is_paused else None

    async def boot(self) -> None:
        """Start the broker, again and again until it serves; returns at once when a process runs here."""
        while self.process.is_dead:
            process = self.process = Process(self._cluster_loop, self.host)
            with process.inside(), self.network.as_node(self.host):
                starting = self._cluster_loop.create_task(self.start(), context=copy_context())
            await asyncio.wait([starting])
            if not starting.cancelled() and starting.exception() is None and not process.is_dead:
                self.is_up = True
            elif self.process is process:
                if not process.is_dead:
                    self.crash_now(power=False)
                await asyncio.sleep(RESTART_S)

    async def leave(self) -> None:
        """Stop the broker as SIGTERM does, and kill it when that takes too long."""
        process, self.is_up = self.process, False
        with process.inside(), self.network.as_node(self.host):
            stopping = self._cluster_loop.create_task(self.stop(), context=copy_context())
        await asyncio.wait([stopping], timeout=STOP_PATIENCE_S)
        if not process.is_dead:
            self._end(process)
            self.files.kill()
        with suppress(asyncio.CancelledError):
            await stopping

    def crash_now(self, *, power: bool) -> None:
        """kill -9, or with ``power`` the loss of everything that was not flushed."""
        self._end(self.process)
        (self.files.crash if power else self.files.kill)()

    def _end(self, process: Process) -> None:
        self.is_up = False
        self._reach.is_dead = True
        self.broker = None
        self.network.kill(self.host)
        process.kill()

    async def _open_registry(self, path: str, workers: Workers) -> tuple[Registry, Callable[[], Awaitable[None]]]:
        session = self._ensemble.open(self.host, self.process)
        return session, session.close
