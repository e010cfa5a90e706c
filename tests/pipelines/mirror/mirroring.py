"""`millstream mirror` as a process of its own between two brokers, a load on both, and harm done to all of them."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka import Producer

from tests.pipelines.mirror.reading import contents
from tests.pipelines.processes import children_of, command_of, kill
from tests.system.broker_process import BrokerProcess

TIMEOUT_S = 180.0
#: Everything often, and little at a time, so that much happens in a short run.
SETTINGS = """
clusters = A, B
A->B.enabled = true
B->A.enabled = true
refresh.topics.interval.seconds = 1
refresh.groups.interval.seconds = 1
emit.checkpoints.interval.seconds = 1
sync.group.offsets.enabled = true
sync.group.offsets.interval.seconds = 1
"""


class Mirroring:
    """The command, with what it says and shows."""

    def __init__(self, folder: Path, one: BrokerProcess, other: BrokerProcess, more: str = "") -> None:
        self.file = folder / "mirror.properties"
        places = f"A.bootstrap.servers={one.address}\nB.bootstrap.servers={other.address}\n"
        self.file.write_text(SETTINGS + places + more)
        self._said = folder / "said"
        self._checkpoint = folder / "checkpoint"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "millstream", "mirror", str(self.file), "--metrics-port", "0", "--every", "5"]
        command += ["--checkpoint", str(self._checkpoint), "--master", "local[2]"]
        with self._said.open("ab") as said:
            self._process = subprocess.Popen(command, stdout=said, stderr=said)

    @property
    def said(self) -> str:
        return self._said.read_text(errors="replace")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def figure(self, name: str, flow: str) -> float:
        """A metric's value now; -1 before it has any."""
        place = re.findall(r"metrics (\S+)$", self.said, re.MULTILINE)
        if not place:
            return -1.0
        with urllib.request.urlopen(f"http://{place[-1]}/metrics") as page:
            text = page.read().decode()
        found = re.search(rf'^millstream_pipeline_{name}{{pipeline="{flow}".*}} (\S+)$', text, re.MULTILINE)
        return float(found[1]) if found else -1.0

    def wait_for(self, holds: Callable[[], bool], what: str) -> None:
        assert self._process is not None
        deadline_s = time.monotonic() + TIMEOUT_S
        while not holds():
            code = self._process.poll()
            assert code is None, f"the mirror ended with {code}:\n{self.said[-4000:]}"
            assert time.monotonic() < deadline_s, f"{what} did not come:\n{self.said[-4000:]}"
            time.sleep(0.1)

    def wait_until_up(self) -> None:
        self.wait_for(lambda: all(self.figure("up", flow) == 1 for flow in ("A->B", "B->A")), "both flows")

    def wait_for_batches(self, flow: str, count: int) -> None:
        """Until so many more batches were counted, whoever ran them."""
        goal = self.figure("batches_total", flow) + count
        self.wait_for(lambda: self.figure("batches_total", flow) >= goal, f"{count} batches of {flow}")

    def kill_flow(self, flow: str) -> None:
        """The process of a flow, which takes its JVM and workers along; return when its end was noticed."""
        before = self.figure("restarts_total", flow)
        [found] = [pid for pid in children_of(self.pid) if f'"{flow}"' in command_of(pid)]
        assert kill(found)
        self.wait_for(lambda: self.figure("restarts_total", flow) > before, f"the end of {flow}")

    def end(self, number: signal.Signals = signal.SIGINT) -> int:
        """Its exit code once it has ended, told by a signal."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(number)
        return self._process.wait(TIMEOUT_S)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            children = children_of(self.pid)
            self._process.kill()
            self._process.wait()
            for pid in children:
                with_group(pid)


def with_group(pid: int) -> None:
    """Kill a process and its session."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


class Load:
    """Records into a topic, all the while, by a producer that loses none when its broker dies."""

    def __init__(self, address: str, topic: str, partitions: int, per_s: int = 300) -> None:
        self._topic, self._partitions, self._per_s = topic, partitions, per_s
        self._producer = Producer(
            {"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 20, "log_level": 0}
        )
        self._over = threading.Event()
        self.sent = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(0.05):
            for _ in range(self._per_s // 20):
                value = b"%d" % self.sent
                self._producer.produce(self._topic, value=value, key=value, partition=self.sent % self._partitions)
                self.sent += 1
            self._producer.poll(0)

    def end(self) -> int:
        """How many there are, all of them acknowledged."""
        self._over.set()
        self._thread.join()
        assert self._producer.flush(60) == 0
        return self.sent


def is_equal(source: BrokerProcess, target: BrokerProcess, topic: str, remote: str, count: int) -> bool:
    """Whether all of a topic has come; what is there must be what the source has, at any time."""
    wanted, found = contents(source.address, topic), contents(target.address, remote)
    for partition, records in found.items():
        assert records == wanted[partition][: len(records)], f"{remote}-{partition} is not what {topic} is"
    return sum(map(len, found.values())) == count
