"""What a workload runs on: brokers, and the faults that strike them."""

import random
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol, TypeAlias

from tests.system.broker_process import BrokerProcess
from tests.system.checker.proxy import Proxy

#: Each fault, which is over when it returns, and how likely it is.
Faults: TypeAlias = Mapping[Callable[[], None], int]
#: A member that was killed is missed soon.
SETTINGS: Mapping[str, str | int] = {
    "group.consumer.min.session.timeout.ms": 6_000,
    "group.consumer.session.timeout.ms": 6_000,
    "group.consumer.min.heartbeat.interval.ms": 1_000,
    "group.consumer.heartbeat.interval.ms": 1_000,
}


class Ground(Protocol):
    """Brokers that a workload can use and strike; ``end`` may come at any time."""

    def start(self) -> str:
        """Run them; where clients find them."""

    def faults(self) -> Faults: ...

    def end(self) -> None: ...


class BrokenBroker(BrokerProcess):
    """A broker with one of the bugs of ``broken_broker``."""

    bug = ""

    def command(self) -> list[str]:
        python, _, _, *arguments = super().command()
        return [python, "-m", "tests.system.checker.broken_broker", self.bug, *arguments]


class OneBroker:
    """A broker that is killed and paused, behind a line that is cut."""

    def __init__(self, folder: Path, dice: random.Random, bug: str = "") -> None:
        self._random = dice
        self._running = ExitStack()
        self._proxy = Proxy()
        self._broker = BrokerProcess(folder / "data", settings=SETTINGS)
        if bug:
            self._broker = BrokenBroker(folder / "data", settings=SETTINGS)
            self._broker.bug = bug

    def start(self) -> str:
        self._running.enter_context(self._proxy)
        # Clients are sent to the proxy, whichever way they came.
        self._broker.settings["advertised.listeners"] = f"PLAINTEXT://{self._proxy.address}"
        self._broker.start()
        self._proxy.targets = [self._broker.address]
        return self._proxy.address

    def faults(self) -> Faults:
        return {self._kill: 3, self._pause: 1, self._proxy.cut: 4}

    def end(self) -> None:
        if self._broker.is_running:
            self._broker.signal(signal.SIGCONT)
            self._broker.kill()
        self._running.close()

    def _kill(self) -> None:
        self._broker.kill()
        self._broker.start()

    def _pause(self) -> None:
        self._broker.signal(signal.SIGSTOP)
        time.sleep(self._random.uniform(0.2, 2.0))
        self._broker.signal(signal.SIGCONT)
