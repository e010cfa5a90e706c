"""A cluster as its users run it: brokers and ZooKeepers as processes, each to be killed, paused and started again."""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from millstream.cli.cluster.zookeeper import ZooKeeperServer
from tests.system.broker_process import BrokerProcess
from tests.zookeepers import running

SESSION_TIMEOUT_MS = 3_000
#: For tests that need every broker all the while: on a busy machine one may be silent for seconds.
CALM: Mapping[str, str | int] = {"zookeeper.session.timeout.ms": 10_000}
SETTINGS: Mapping[str, str | int] = {
    "zookeeper.session.timeout.ms": SESSION_TIMEOUT_MS,
    "default.replication.factor": 3,
    "min.insync.replicas": 2,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
}


class ClusterProcess:
    """Brokers 1 to ``count`` over ZooKeepers of their own; a context manager that starts and ends them all."""

    def __init__(
        self, folder: Path, *, count: int = 3, zookeepers: int = 1, settings: Mapping[str, str | int] | None = None
    ) -> None:
        self.folder = folder
        self.zookeepers: list[ZooKeeperServer] = []
        self.brokers: dict[int, BrokerProcess] = {}
        self._count = count
        self._zookeeper_count = zookeepers
        self._settings = {**SETTINGS, **(settings or {})}
        self._running = ExitStack()

    @property
    def bootstrap(self) -> str:
        """All brokers' addresses."""
        return ",".join(broker.address for broker in self.brokers.values())

    def __enter__(self) -> Self:
        with ExitStack() as starting:
            self.zookeepers = starting.enter_context(running(self.folder / "zookeeper", self._zookeeper_count))
            starting.callback(self._end_brokers)
            for number in range(1, self._count + 1):
                self.add(number)
            for broker in self.brokers.values():
                broker.ready()
            self._running = starting.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.close()

    def add(self, number: int) -> BrokerProcess:
        """Run one more broker; ``ready`` says when it serves."""
        broker = BrokerProcess(
            self.folder / f"broker-{number}",
            settings={**self._settings, "broker.id": number, **self.settings_of(number)},
            arguments=["--registry", f"zk://{self.ensemble_of(number)}/cluster"],
        )
        self.brokers[number] = broker
        broker.launch()
        return broker

    def settings_of(self, number: int) -> Mapping[str, str | int]:
        """What one broker has of its own."""
        return {}

    def ensemble_of(self, number: int) -> str:
        """Where one broker finds ZooKeeper."""
        return ",".join(server.address for server in self.zookeepers)

    def signal(self, number: int, which: int) -> None:
        """Send a broker a signal."""
        os.kill(self.brokers[number].pid, which)

    def _end_brokers(self) -> None:
        for broker in self.brokers.values():
            broker.kill()
