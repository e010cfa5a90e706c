"""A cluster of three under a workload, and what strikes it."""

import random
import resource
import signal
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from tests.system.checker.cut_cluster import CutCluster
from tests.system.checker.ground import SETTINGS as GROUP_SETTINGS
from tests.system.checker.ground import Faults

SESSION_S = 2.0
#: Surely past the session, and past the time that a replica may lag.
SILENCE_S = (1.3 * SESSION_S, 2 * SESSION_S)
CUT_S = (0.5, 1.5 * SESSION_S)
#: No file may grow beyond this any more.
FULL_BYTES = 1 << 10
FULL_TIMEOUT_S = 30.0
#: Nobody waits for a ZooKeeper of three; on a busy machine its start takes long.
ZOOKEEPER_TIMEOUT_S = 180.0
SETTINGS: Mapping[str, str | int] = {
    **GROUP_SETTINGS,
    "zookeeper.session.timeout.ms": int(SESSION_S * 1000),
    "replica.lag.time.max.ms": 2_000,
    "controller.socket.timeout.ms": 3_000,
    "controlled.shutdown.retry.backoff.ms": 500,
    "log.segment.bytes": 1 << 20,
}


class ThreeBrokers:
    """Three brokers over an ensemble of three; whatever strikes is over, but maybe not overcome, when the next does."""

    def __init__(self, folder: Path, dice: random.Random) -> None:
        self.cluster = CutCluster(folder, zookeepers=3, settings=SETTINGS)
        self._random = dice
        self._running = ExitStack()

    def start(self) -> str:
        self._running.enter_context(self.cluster)
        return self.cluster.bootstrap

    def faults(self) -> Faults:
        return {
            self._kill_broker: 4,
            self._pause_broker: 2,
            self._cut_off_from_brokers: 2,
            self._cut_one_way: 2,
            self._cut_off_from_zookeeper: 2,
            self._cut_off_from_everyone: 2,
            self._restart_one_by_one: 1,
            self._kill_leader_of_zookeeper: 1,
            self._fill_disk: 2,
        }

    def end(self) -> None:
        for broker in self.cluster.brokers.values():
            if broker.is_running:
                broker.signal(signal.SIGCONT)
        self._running.close()

    def _kill_broker(self) -> None:
        number = self._any()
        self.cluster.kill(number)
        time.sleep(self._random.choice((0, 2 * SESSION_S)))
        self.cluster.start(number)

    def _pause_broker(self) -> None:
        broker = self.cluster.brokers[self._any()]
        broker.signal(signal.SIGSTOP)
        time.sleep(self._random.uniform(*SILENCE_S))
        broker.signal(signal.SIGCONT)

    def _cut_off_from_brokers(self) -> None:
        number = self._any()
        self.cluster.keep_others_from(number)
        self.cluster.keep_from_others(number)
        self._mend_after(*CUT_S)

    def _cut_one_way(self) -> None:
        self._random.choice((self.cluster.keep_others_from, self.cluster.keep_from_others))(self._any())
        self._mend_after(*CUT_S)

    def _cut_off_from_zookeeper(self) -> None:
        self.cluster.keep_from_zookeeper(self._any())
        self._mend_after(*SILENCE_S)

    def _cut_off_from_everyone(self) -> None:
        """But not from clients, who may still write to a leader that is none any more."""
        number = self._any()
        self.cluster.keep_others_from(number)
        self.cluster.keep_from_others(number)
        self.cluster.keep_from_zookeeper(number)
        self._mend_after(*SILENCE_S)

    def _restart_one_by_one(self) -> None:
        for number in self.cluster.numbers:
            self.cluster.stop(number)
            self.cluster.start(number)

    def _kill_leader_of_zookeeper(self) -> None:
        leader = next((server for server in self.cluster.zookeepers if server.mode() == "leader"), None)
        if leader is not None:  # There may be none where one was killed just now.
            leader.kill()
            time.sleep(SESSION_S)
            leader.start()
            leader.wait(timeout_s=ZOOKEEPER_TIMEOUT_S)

    def _fill_disk(self) -> None:
        """Nothing can be written any more, in the midst of a batch maybe; then the broker gets another disk's space."""
        number = self._any()
        broker = self.cluster.brokers[number]
        seen = len(broker.output)
        _, most = resource.prlimit(broker.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (FULL_BYTES, most))
        deadline_s = time.monotonic() + FULL_TIMEOUT_S
        while "is offline" not in broker.output[seen:]:
            assert time.monotonic() < deadline_s, f"broker {number} did not notice that its disk is full"
            time.sleep(0.02)
        time.sleep(self._random.uniform(*CUT_S))
        self.cluster.kill(number)
        self.cluster.start(number)

    def _any(self) -> int:
        return self._random.choice(self.cluster.numbers)

    def _mend_after(self, least_s: float, most_s: float) -> None:
        time.sleep(self._random.uniform(least_s, most_s))
        self.cluster.mend()
