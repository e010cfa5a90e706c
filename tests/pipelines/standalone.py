"""Spark's own standalone cluster: a master and workers as processes, of which one may be killed."""

import os
import re
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from millstream.pipelines.spark.session import prepare_environment
from tests.pipelines.processes import command_of, kill_session, session_of

HOME = Path(pyspark.__file__).parent
START_TIMEOUT_S = 120.0
#: Small, and compiled no more than a short run is worth.
JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dspark.master.rest.enabled=false")
#: What Spark's scripts would set.
ENVIRONMENT = {"SPARK_HOME": str(HOME), "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": "127.0.0.1"}
#: For the driver: an executor on each worker, of one core, as quick to start.
CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


class StandaloneCluster:
    """A master and its workers; each is the leader of a session of its own, executors and their Python with it."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self._folder, self._count = folder, workers
        self._master: subprocess.Popen[bytes] | None = None
        self._workers: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def __enter__(self) -> Self:
        prepare_environment()
        self._folder.mkdir(parents=True)
        try:
            self._master = self._start("master.Master", "master", "--port", "0")
            self.url = self._said("master", r"Starting Spark master at (spark://\S+)")
            for number in range(self._count):
                name = f"worker{number}"
                work = ("--cores", "1", "--memory", "1g", "--work-dir", str(self._folder / name))
                self._workers.append(self._start("worker.Worker", name, *work, self.url))
            for number in range(self._count):
                self._said(f"worker{number}", r"Successfully registered with master (\S+)")
        except BaseException:
            self._kill_all()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kill_all()

    @property
    def pids(self) -> list[int]:
        """The workers' processes, which lead their sessions."""
        return [worker.pid for worker in self._workers]

    def working(self) -> list[int]:
        """The workers whose executors have begun to run Python."""
        return [
            number
            for number, leader in enumerate(self.pids)
            if any("pyspark.daemon" in command_of(pid) for pid in session_of(leader))
        ]

    def kill_worker(self, number: int) -> None:
        """A worker at once, with its executor and all that runs under it."""
        kill_session(self._workers[number])

    def _start(self, main: str, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        java = f"{os.environ['JAVA_HOME']}/bin/java" if "JAVA_HOME" in os.environ else "java"
        command = [java, *JVM, "-cp", f"{HOME}/jars/*", f"org.apache.spark.deploy.{main}"]
        with open(self._folder / f"{name}.log", "wb") as log:
            return subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--webui-port", "0", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **ENVIRONMENT},
            )

    def _said(self, name: str, pattern: str) -> str:
        """What follows in the process's output, once it has said it."""
        log = self._folder / f"{name}.log"
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while not (found := re.search(pattern, log.read_text())):
            assert time.monotonic() < deadline_s, f"{name} did not start:\n{log.read_text()[-4000:]}"
            time.sleep(0.05)
        return found[1]

    def _kill_all(self) -> None:
        for process in (*self._workers, *([self._master] if self._master else [])):
            kill_session(process)
