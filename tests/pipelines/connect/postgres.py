"""A real PostgreSQL for tests: Debian's server, on a free port and in a folder of its own."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

from millstream.pipelines.connect.postgres.connection import Database

START_TIMEOUT_S = 30.0
SETTINGS = {
    "wal_level": "logical",
    "max_replication_slots": "50",
    "fsync": "off",
    "listen_addresses": "127.0.0.1",
    "shared_buffers": "16MB",
    "log_min_messages": "fatal",
}


def binaries() -> Path | None:
    """Where the newest server's programs are; None when there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


class PostgresServer:
    """A server that can be stopped, killed and started again under the same address."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        # Not below pytest's own folder, which other users may not enter; root may not run a PostgreSQL.
        self.folder = Path(tempfile.mkdtemp(prefix="millstream-postgres-"))
        self._as: dict[str, Any] = {"user": "postgres", "group": "postgres", "extra_groups": []}
        if os.getuid() != 0:
            self._as = {}
        else:
            shutil.chown(self.folder, "postgres")
        self.user = "postgres"
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        made = [str(programs / "initdb"), "-D", str(self.folder / "data"), "-A", "trust", "-U", self.user]
        self._run([*made, "-N", "--locale=C", "-E", "UTF8"])

    def _run(self, command: Sequence[str]) -> None:
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False, **self._as)
        assert done.returncode == 0, done.stdout + done.stderr

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> None:
        """Run it, and wait until it answers."""
        settings = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
        command = [str(self._programs / "postgres"), "-D", "data", "-p", str(self.port), "-k", str(self.folder)]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [*command, *settings], cwd=self.folder, stdout=log, stderr=log, start_new_session=True, **self._as
            )
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while True:
            with suppress(psycopg.OperationalError):
                self.connect("postgres").close()
                return
            assert self._process.poll() is None and time.monotonic() < deadline_s, (self.folder / "log").read_text()
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End it: SIGINT in good order, SIGQUIT as if it had crashed."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None

    def connect(self, name: str) -> "psycopg.Connection[Any]":
        return psycopg.connect(host="127.0.0.1", port=self.port, user=self.user, dbname=name, autocommit=True)

    def database(self) -> "TestDatabase":
        """An empty one, for one test at a time."""
        name = "shop"
        with self.connect("postgres") as connection:
            if not connection.execute("SELECT FROM pg_database WHERE datname = %s", (name,)).fetchall():
                connection.execute(f"CREATE DATABASE {name}".encode())
        return TestDatabase(self, name)


class TestDatabase:
    """A database, and what tests do with it."""

    __test__ = False

    def __init__(self, server: PostgresServer, name: str) -> None:
        self.server = server
        self.name = name

    @property
    def url(self) -> str:
        """As JDBC names it."""
        return f"jdbc:postgresql://127.0.0.1:{self.server.port}/{self.name}?user={self.server.user}"

    @property
    def at(self) -> Database:
        return Database.at(host="127.0.0.1", port=self.server.port, user=self.server.user, dbname=self.name)

    def connect(self) -> "psycopg.Connection[Any]":
        """Another session."""
        return self.server.connect(self.name)

    def run(self, *statements: str) -> None:
        """Statements, each a transaction."""
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.connect() as connection:
            return connection.execute(query.encode()).fetchall()

    def clear(self) -> None:
        """Everybody out, and everything gone; far quicker than to make another."""
        others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        with self.connect() as connection:
            while connection.execute(f"SELECT pg_terminate_backend(pid) {others}".encode()).fetchall():
                time.sleep(0.01)
            connection.execute("SET client_min_messages = warning")
            connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
            for (publication,) in connection.execute("SELECT pubname FROM pg_publication").fetchall():
                connection.execute(f'DROP PUBLICATION "{publication}"'.encode())
            schemas = "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_|^information_schema$'"
            for (schema,) in connection.execute(schemas.encode()).fetchall():
                connection.execute(f'DROP SCHEMA "{schema}" CASCADE'.encode())
            connection.execute("CREATE SCHEMA public")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
