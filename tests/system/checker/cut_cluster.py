"""A cluster whose lines can be cut: between its brokers, each way by itself, and between a broker and ZooKeeper."""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from millstream.cli.cluster.zookeeper import free_ports
from tests.system.checker.proxy import HOST, Proxy
from tests.system.cluster_process import ClusterProcess


class CutCluster(ClusterProcess):
    """Three brokers that reach each other and ZooKeeper through proxies; clients reach them directly."""

    def __init__(self, folder: Path, *, zookeepers: int = 1, settings: Mapping[str, str | int] | None = None) -> None:
        super().__init__(folder, zookeepers=zookeepers, settings=settings)
        self.numbers = (1, 2, 3)
        ports = iter(free_ports(2 * len(self.numbers)))
        self._outside = {number: f"{HOST}:{next(ports)}" for number in self.numbers}
        self._inside = {number: f"{HOST}:{next(ports)}" for number in self.numbers}
        #: In front of what each broker is to others, and of what ZooKeeper is to each broker.
        self._before = {number: Proxy(self._inside[number]) for number in self.numbers}
        self._behind = {number: Proxy() for number in self.numbers}
        self._proxies = ExitStack()

    @property
    def bootstrap(self) -> str:
        return ",".join(self._outside.values())

    def settings_of(self, number: int) -> Mapping[str, str | int]:
        outside = f"PLAINTEXT://{self._outside[number]}"
        return {
            "listeners": f"{outside},INSIDE://{self._inside[number]}",
            "advertised.listeners": f"{outside},INSIDE://{self._before[number].address}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT",
            "inter.broker.listener.name": "INSIDE",
        }

    def ensemble_of(self, number: int) -> str:
        self._behind[number].targets = [server.address for server in self.zookeepers]
        return self._behind[number].address

    def kill(self, number: int) -> None:
        """End a broker at once; whoever tries to reach it is refused, as if there were no proxy."""
        self._before[number].close_door()
        self.brokers[number].kill()

    def stop(self, number: int) -> None:
        """Let a broker end in good order."""
        self.brokers[number].stop()
        self._before[number].close_door()

    def start(self, number: int) -> None:
        """Run a broker again."""
        self._before[number].open_door()
        self.brokers[number].start()

    def keep_others_from(self, number: int) -> None:
        """Let nothing through that others ask of a broker."""
        self._before[number].hold()

    def keep_from_others(self, number: int) -> None:
        """Let nothing through that a broker asks of others."""
        for other in self.numbers:
            if other != number:
                self._before[other].hold(lambda name: name == f"broker-{number}")

    def keep_from_zookeeper(self, number: int) -> None:
        """Let nothing through between a broker and ZooKeeper."""
        self._behind[number].hold()

    def mend(self) -> None:
        """Let everything through again, what was held back first."""
        for proxy in (*self._before.values(), *self._behind.values()):
            proxy.let_through()

    def __enter__(self) -> Self:
        with ExitStack() as starting:
            for proxy in (*self._before.values(), *self._behind.values()):
                starting.enter_context(proxy)
            super().__enter__()
            self._proxies = starting.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._proxies.close()
