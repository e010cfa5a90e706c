"""The contenders: each is started, measured, stopped and killed in the same way."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from tests.compatibility import apache_kafka

from bench import wire
from bench.ballast import Ballast

READY_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 60.0
PROJECT = Path(__file__).parents[1]


class Server(Protocol):
    """A server on a port and a data folder of its own; the folder outlives a stop or a kill."""

    name: str
    data: Path

    @property
    def address(self) -> str: ...

    @property
    def pid(self) -> int: ...

    def start(self) -> float:
        """Seconds from the start of the process until it answers."""
        ...

    def stop(self) -> None: ...

    def kill(self) -> None: ...

    def list_topics_command(self) -> list[str] | None:
        """The command line that lists topics, where there is one."""
        ...


#: Makes a server over a new data folder, with settings under Kafka's names.
Maker = Callable[[Path, Mapping[str, str]], Server]


class _PythonServer:
    """A server that is a Python module; ready when it answers a Metadata request."""

    name: str

    def __init__(self, data: Path, settings: Mapping[str, str]) -> None:
        self.data, self.settings = data, settings
        self.port = apache_kafka.free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    def command(self) -> list[str]:
        raise NotImplementedError

    def start(self) -> float:
        self.data.mkdir(parents=True, exist_ok=True)
        with open(self.data.with_name(self.data.name + ".out"), "ab") as output:
            started = time.perf_counter()
            self._process = subprocess.Popen(
                self.command(), cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not apache_kafka.brokers_known("127.0.0.1", self.port):
            if self._process.poll() is not None:
                raise RuntimeError(f"{self.name} ended while starting; see {self.data}.out")
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} did not answer in {READY_TIMEOUT_S} s")
            time.sleep(0.002)
        return time.perf_counter() - started

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            finally:
                self.kill()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def list_topics_command(self) -> list[str] | None:
        return None


class Ceiling(_PythonServer):
    name = "ceiling"

    def command(self) -> list[str]:
        return [sys.executable, "-m", "bench.ceiling", str(self.port), "1", str(self.data)]


class Millstream(_PythonServer):
    name = "millstream"

    def command(self) -> list[str]:
        # MILLSTREAM_BENCH_WRAP puts a profiler in front: py-spy record -o … --.
        wrap = os.environ.get("MILLSTREAM_BENCH_WRAP", "").split()
        where = ["--host", "127.0.0.1", "--port", str(self.port), "--data", str(self.data)]
        settings = [part for name, value in self.settings.items() for part in ("--set", f"{name}={value}")]
        return [*wrap, sys.executable, "-m", "millstream", "serve", *where, *settings]

    def list_topics_command(self) -> list[str] | None:
        script = Path(sys.executable).with_name("millstream")
        front = [str(script)] if script.exists() else [sys.executable, "-m", "millstream"]
        return [*front, "topic", "list", "--bootstrap", self.address]


class Kafka:
    """Apache Kafka, one node, default settings, 1 GB heap."""

    name = "Apache Kafka"

    def __init__(self, data: Path, settings: Mapping[str, str]) -> None:
        self.data = data
        self._kafka = apache_kafka.ApacheKafka(data, settings=settings)

    @property
    def address(self) -> str:
        return self._kafka.bootstrap

    @property
    def pid(self) -> int:
        return self._kafka.pid

    def start(self) -> float:
        if not (self.data / "meta.properties").exists():
            # Formatting is a step of its own in Kafka; the start that follows it is what is timed.
            self._kafka.start()
            self._kafka.stop()
        started = time.perf_counter()
        self._kafka.start()
        return time.perf_counter() - started

    def stop(self) -> None:
        self._kafka.stop()

    def kill(self) -> None:
        self._kafka.kill()

    def list_topics_command(self) -> list[str] | None:
        tool = "org.apache.kafka.tools.TopicCommand"
        return ["java", "-cp", apache_kafka.classpath(), tool, "--bootstrap-server", self.address, "--list"]


MAKERS: dict[str, Maker] = {maker.name: maker for maker in (Ceiling, Millstream, Kafka)}


class Stand:
    """The servers of one run, their folders, and the end of both."""

    def __init__(self, names: list[str], folder: Path | None = None, makers: Mapping[str, Maker] | None = None) -> None:
        """``makers`` of something else than single servers may be given."""
        self.names = names
        self._makers = MAKERS if makers is None else makers
        self._folder = Path(tempfile.mkdtemp(prefix="millstream-bench-", dir=folder))
        self._made: list[Server] = []
        self._ballast = Ballast(self._folder)

    def __enter__(self) -> "Stand":
        self._ballast.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._made:
            server.kill()
        self._ballast.__exit__(None, None, None)
        shutil.rmtree(self._folder, ignore_errors=True)

    def new(self, name: str, settings: Mapping[str, str] | None = None) -> Server:
        """A server not started yet; killed and its data removed when the stand is left."""
        folder = self._folder / f"{name.split()[-1].lower()}-{len(self._made)}"
        server = self._makers[name](folder, settings or {})
        self._made.append(server)
        return server

    def discard(self, server: Server) -> None:
        """Kill a server and free its disk before the stand ends."""
        server.kill()
        self._made.remove(server)
        shutil.rmtree(server.data, ignore_errors=True)


def available() -> dict[str, str | None]:
    """Each contender and why it cannot run here, None where it can."""
    help_run = subprocess.run(
        [sys.executable, "-m", "millstream", "serve", "--help"], cwd=PROJECT, capture_output=True, check=False
    )
    return {
        Ceiling.name: None,
        Millstream.name: None if help_run.returncode == 0 else "`millstream serve` does not run",
        Kafka.name: apache_kafka.missing(),
    }


def await_writable(server: Server, topic: str, timeout_s: float = READY_TIMEOUT_S) -> None:
    """Return once the topic can be written, however often the server refuses or drops the connection before."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            with wire.Connection(server.address, timeout_s=5) as connection:
                connection.await_topic(topic, timeout_s=5)
                return
        except (OSError, TimeoutError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.005)
