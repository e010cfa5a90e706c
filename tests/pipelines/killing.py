"""Drivers, executors, Python workers and brokers, killed in the middle of a stream that must come out whole."""

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.pipelines.processes import command_of, kill, kill_session, parent_of, session_of
from tests.pipelines.records import values_of
from tests.pipelines.standalone import StandaloneCluster
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess

ROOT = Path(__file__).resolve().parents[2]
DRIVER_TIMEOUT_S = 240.0


class Copying:
    """A stream from one topic into another, driven by a process of its own that is started again when it dies."""

    def __init__(
        self,
        broker: BrokerProcess,
        folder: Path,
        *,
        records: int,
        batch_records: int,
        delivery: str = "exactly-once",
        cluster: StandaloneCluster | None = None,
    ) -> None:
        self.broker = broker
        self.batch_records = batch_records
        topics = Topics(broker.address)
        self.source, self.target = topics.new(2), topics.new(3)
        self.expected = sorted(b"%d" % number for number in range(records))
        for partition in (0, 1):
            topics.put(self.source, [b"%d" % number for number in range(partition, records, 2)], partition)
        self._delivery, self._cluster = delivery, cluster
        self._checkpoint = folder / f"checkpoint-{self.target}"
        self._log = folder / f"driver-{self.target}.log"
        self._driver: subprocess.Popen[bytes] | None = None
        self.starts = 0

    @property
    def output(self) -> str:
        """What the drivers printed."""
        return self._log.read_text(errors="replace")

    @property
    def is_over(self) -> bool:
        return self._driver is not None and self._driver.poll() == 0

    @property
    def batches(self) -> int:
        """How many batches are in the query's commit log."""
        folder = self._checkpoint / "commits"
        return sum(name.isdigit() for name in os.listdir(folder)) if folder.is_dir() else 0

    def ensure_driver(self) -> None:
        """Start the driver if it is dead."""
        if self._driver is not None and self._driver.poll() is None:
            return
        assert not self.is_over
        self.starts += 1
        arguments = [self.broker.address, self.source, self.target, f"file://{self._checkpoint}"]
        arguments += [self._delivery, str(self.batch_records)]
        arguments += [self._cluster.url if self._cluster else "local[2]", str(self.starts)]
        with self._log.open("ab") as log:
            self._driver = subprocess.Popen(
                [sys.executable, "-m", "tests.pipelines.sink_driver", *arguments],
                cwd=ROOT,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
            )

    def wait_until(self, holds: Callable[[], bool], what: str) -> None:
        """Until it holds; the driver is started again whenever it is dead."""
        deadline_s = time.monotonic() + DRIVER_TIMEOUT_S
        while not holds():
            assert time.monotonic() < deadline_s, f"{what} did not come:\n{self.output[-4000:]}"
            if not self.is_over:
                self.ensure_driver()
            time.sleep(0.05)

    def wait_for_batches(self, count: int) -> None:
        """Until so many more batches are committed, or all of them."""
        goal = self.batches + count
        self.wait_until(lambda: self.batches >= goal or self.is_over, f"{goal} batches")

    def finish(self) -> None:
        """Until the stream is through, with no more harm done."""
        self.wait_until(lambda: self.is_over, "the end")

    def values(self) -> list[bytes | None]:
        return values_of(self.broker.address, self.target)

    def close(self) -> None:
        if self._driver is not None:
            self._kill_group()

    # Harm.

    def kill_driver(self) -> None:
        """The driver, its JVM, and whatever else runs under them, at once."""
        self._kill_group()

    def kill_python(self) -> bool:
        """One of the Python workers; false when there is none now."""
        return self._kill_one(is_python_worker)

    def kill_executor(self) -> bool:
        """One of the cluster's executors; false when there is none now."""
        return self._kill_one(lambda pid: "CoarseGrainedExecutorBackend" in command_of(pid))

    def kill_broker(self) -> None:
        self.broker.kill()
        self.broker.start()

    def _kill_one(self, is_one: Callable[[int], bool]) -> bool:
        assert self._driver is not None
        leaders = [self._driver.pid, *(self._cluster.pids if self._cluster else ())]
        found = [pid for leader in leaders for pid in session_of(leader) if is_one(pid)]
        return bool(found) and kill(random.choice(found))

    def _kill_group(self) -> None:
        assert self._driver is not None
        kill_session(self._driver)


def is_python_worker(pid: int) -> bool:
    """A Python process that Spark's daemon forked."""
    return "pyspark.daemon" in command_of(pid) and "pyspark.daemon" in command_of(parent_of(pid))
