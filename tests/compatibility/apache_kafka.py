"""Apache Kafka 4.3.0 itself, run as a peer: the judge of our tests, of our files and of our benchmark.

The jars are resolved by name through Maven into the project's ``.cache`` folder, once.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

VERSION = "4.3.0"
HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".cache" / f"apache-kafka-{VERSION}"
POM = HERE / "java" / "pom.xml"
COPY_DEPENDENCIES = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"

#: As Kafka's own start script gives them.
JVM_OPTIONS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0


def missing() -> str | None:
    """Why Apache Kafka cannot run on this machine, or None when it can."""
    for command in ("java", "mvn"):
        if shutil.which(command) is None and not (command == "mvn" and (CACHE / "done").exists()):
            return f"{command} is not installed"
    return None


def install() -> Path:
    """The folder of jars, resolved through Maven when it is not there yet; safe to call from several processes."""
    CACHE.mkdir(parents=True, exist_ok=True)
    jars, done = CACHE / "jars", CACHE / "done"
    with open(CACHE / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            subprocess.run(
                ["mvn", "-q", "-B", "-f", POM, COPY_DEPENDENCIES, f"-DoutputDirectory={jars}"],
                check=True,
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr,  # Even a quiet Maven sets colours back, in front of whatever a load has to tell.
            )
            done.touch()
    return jars


def classpath(*more: Path) -> str:
    return os.pathsep.join([f"{install()}/*", *map(str, more)])


def run_tool(main_class: str, *arguments: str | Path, timeout_s: float = 60) -> str:
    """What one of Kafka's command-line tools prints; a failure raises with all it said."""
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", classpath(), main_class]
    done = subprocess.run(
        [*command, *map(str, arguments)], capture_output=True, text=True, timeout=timeout_s, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{main_class} exited with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout + done.stderr


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def new_cluster_id() -> str:
    """A random one."""
    text = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return text.replace("-", "A")  # A leading dash would be taken for an option.


class ApacheKafka:
    """One node, broker and controller in one, with default settings.

    ``data`` is its log directory: formatted when new, opened again when not, and never removed here.
    """

    def __init__(
        self,
        data: Path,
        *,
        port: int = 0,
        heap: str = "1g",
        settings: Mapping[str, str] | None = None,
        cluster_id: str | None = None,
    ) -> None:
        """``cluster_id`` is shared by the nodes of one cluster; each new node is a cluster of its own without it."""
        self.data = data
        self.cluster_id = cluster_id or new_cluster_id()
        self.port = port or free_port()
        self.heap = heap
        self._settings = dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    def start(self) -> None:
        """Returns once the broker answers and counts itself a member of its cluster."""
        self.begin()
        self._wait_until_ready()

    def begin(self) -> None:
        """Start the process, and do not wait for it: nodes of one cluster wait for each other."""
        assert self._process is None, "already started"
        properties = self._write_properties()
        if not (self.data / "meta.properties").exists():
            run_tool("kafka.tools.StorageTool", "format", "-t", self.cluster_id, "-c", properties)
        output = open(self.data.with_name(self.data.name + ".out"), "ab")  # noqa: SIM115 - handed to the process
        with output:
            self._process = subprocess.Popen(
                [
                    "java",
                    f"-Xms{self.heap}",
                    f"-Xmx{self.heap}",
                    *JVM_OPTIONS,
                    "-cp",
                    classpath(),
                    "kafka.Kafka",
                    properties,
                ],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def stop(self) -> None:
        """A graceful stop: logs flushed, checkpoints and producer snapshots written."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> ApacheKafka:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _write_properties(self) -> Path:
        self.data.mkdir(parents=True, exist_ok=True)
        controller_port = free_port()
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data),
            # One node cannot hold three replicas; everything else is as Kafka ships it.
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            **self._settings,
        }
        path = self.data.with_name(self.data.name + ".properties")
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return path

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                self._process = None
                raise RuntimeError(f"Apache Kafka ended while starting; see {self.data}.out")
            if brokers_known("127.0.0.1", self.port):
                return
            time.sleep(0.02)
        self.kill()
        raise RuntimeError("Apache Kafka did not answer in time")


def brokers_known(host: str, port: int) -> int:
    """How many brokers the one at this address names in a Metadata answer; 0 while it does not answer."""
    request = struct.pack(">hhihi", 3, 1, 7, -1, 0)  # Metadata v1, no client id, no topics
    try:
        with socket.create_connection((host, port), timeout=2) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            answer = connection.recv(12, socket.MSG_WAITALL)
    except OSError:
        return 0
    return int(struct.unpack_from(">i", answer, 8)[0]) if len(answer) == 12 else 0


if __name__ == "__main__":
    install()
