"""Consumers in groups and transactional producers of every client, asked alike.

A ``Host`` is a process of one client that holds any number of them. A member is polled without pause by its client;
``look`` tells what came of it, and tests wait on that. What a client cannot do is not among its ``abilities``.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, NamedTuple

import pytest

from tests.compatibility import apache_kafka
from tests.compatibility.drivers import DRIVERS
from tests.compatibility.drivers.base import Refused
from tests.compatibility.drivers.java import CLASSES
from tests.compatibility.drivers.kafkajs import FOLDER as KAFKAJS
from tests.compatibility.drivers.kcat import refusal
from tests.compatibility.drivers.lines import Lines

WAIT_S = 30.0
#: Long enough for a busy machine; a test that waits for it to pass gives a shorter one.
SESSION_MS = 10_000

Place = tuple[str, int]


class Row(NamedTuple):
    topic: str
    partition: int
    offset: int
    value: str


class Member:
    """One consumer in a group, until it leaves."""

    def __init__(self, host: Host, number: int, group: str) -> None:
        self.host = host
        self.group = group
        self.assigned: set[Place] = set()
        self.rows: list[Row] = []
        self.events: list[tuple[str, set[Place]]] = []
        self.error: int | None = None
        self._number = number
        self._has_left = False

    def __repr__(self) -> str:
        return f"<{self.host.name} {self._number} of {self.group}: {sorted(self.assigned)} error={self.error}>"

    def ask(self, call: str, **arguments: object) -> Any:
        return self.host.ask(call, member=self._number, **arguments)

    def look(self) -> None:
        told = self.ask("state")
        self.assigned = {(topic, partition) for topic, partition in told["assigned"]}
        self.rows += [Row(*row) for row in told["records"]]
        self.events = [(kind, {(topic, partition) for topic, partition in rows}) for kind, rows in told["events"]]
        self.error = told["error"]

    def read(self, count: int) -> list[Row]:
        """The next ``count`` records, and not one more."""
        until(lambda: len(self.rows) >= count, self)
        rows, self.rows = self.rows, []
        assert len(rows) == count, f"wanted {count} records, got {rows}"
        return rows

    def values(self, count: int) -> list[str]:
        return sorted(row.value for row in self.read(count))

    def commit(self, mode: str = "sync", offsets: Sequence[tuple[str, int, int, str]] | None = None) -> None:
        """These offsets, or all that was read."""
        self.ask("commit", mode=mode, offsets=offsets)

    def committed(self, topic: str, partition: int = 0) -> tuple[int, str] | None:
        """Offset and metadata, or None where nothing was committed."""
        found = self.ask("committed", topic=topic, partition=partition)
        return None if found is None else (found[0], found[1])

    def seek(self, topic: str, partition: int, offset: int) -> None:
        self.ask("seek", topic=topic, partition=partition, offset=offset)

    def pause(self, places: Iterable[Place]) -> None:
        self.ask("pause", places=sorted(places))

    def resume(self, places: Iterable[Place]) -> None:
        self.ask("resume", places=sorted(places))

    def leave(self) -> None:
        if not self._has_left:
            self._has_left = True
            self.ask("leave")


class Producer:
    """A transactional producer."""

    def __init__(self, host: Host, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._host = host
        self._number = host.ask("open_producer", transactional_id=transactional_id, timeout_ms=timeout_ms)

    def _ask(self, call: str, **arguments: object) -> None:
        self._host.ask(call, producer=self._number, **arguments)

    def begin(self) -> None:
        self._ask("begin")

    def send(self, topic: str, *values: str, partition: int = 0) -> None:
        """Send these and wait until the broker has them."""
        self._ask("send", topic=topic, partition=partition, values=values)

    def send_offsets(self, member: Member, *offsets: tuple[str, int, int]) -> None:
        self._ask("send_offsets", member=member._number, offsets=offsets)

    def commit(self) -> None:
        self._ask("commit_transaction")

    def abort(self) -> None:
        self._ask("abort_transaction")


class Host:
    """A process of one client; ``kill`` is a crash of all it holds."""

    name: ClassVar[str]
    abilities: ClassVar[frozenset[str]]

    def __init__(self, bootstrap: str) -> None:
        self._lines = Lines(self.command(bootstrap), self.name)
        self.ask = self._lines.ask
        self.kill = self._lines.kill
        self.close = self._lines.close

    def said(self) -> list[str]:
        """What the client logged last, where its process keeps it."""
        with suppress(Refused):
            return list(self.ask("said"))
        return []

    @classmethod
    def missing(cls) -> str | None:
        return DRIVERS[cls.name].missing()

    @classmethod
    def command(cls, bootstrap: str) -> list[str]:
        return [sys.executable, "-m", f"tests.compatibility.hosts.{cls.name.replace('-', '_')}", bootstrap]

    def join(
        self,
        group: str,
        *topics: str,
        pattern: str | None = None,
        instance: str | None = None,
        protocol: str = "classic",
        assignor: str | None = "range",
        isolation: str = "read_uncommitted",
        auto_commit: bool = False,
        session_ms: int = SESSION_MS,
    ) -> Member:
        number = self.ask(
            "join",
            group=group,
            topics=topics or None,
            pattern=pattern,
            instance=instance,
            protocol=protocol,
            assignor=assignor,
            isolation=isolation,
            auto_commit=auto_commit,
            session_ms=session_ms,
        )
        return Member(self, number, group)


#: ``follow`` is to see topics that come to match a pattern later; ``consumer`` is the protocol in which brokers assign.
CLASSIC = frozenset({"commit", "seek", "pause", "regex"})


class ConfluentHost(Host):
    name = "confluent"
    abilities = CLASSIC | {"async", "static", "cooperative", "follow", "consumer", "transactions"}


class KafkaPythonHost(Host):
    """It may never see a topic that is made while it joins a group, on Apache Kafka too; so it is not asked to."""

    name = "kafka-python"
    abilities = CLASSIC | {"async", "static", "cooperative", "transactions"}


class AioHost(Host):
    name = "aiokafka"
    abilities = CLASSIC | {"static", "follow", "transactions"}


class KafkaJsHost(Host):
    name = "kafkajs"
    abilities = CLASSIC | {"transactions"}

    @classmethod
    def command(cls, bootstrap: str) -> list[str]:
        return ["node", "--no-warnings", str(KAFKAJS / "members.js"), bootstrap]


class JavaHost(Host):
    name = "java"
    abilities = CLASSIC | {"async", "static", "cooperative", "follow", "consumer", "transactions"}

    @classmethod
    def command(cls, bootstrap: str) -> list[str]:
        options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        return ["java", *options, "-cp", apache_kafka.classpath(CLASSES), "Members", bootstrap]

    def tool(self, main_class: str, *arguments: object) -> str:
        """What one of Kafka's tools prints, run in this warm machine; a failure raises with all it said."""
        done = self.ask("tool", main=f"org.apache.kafka.tools.{main_class}", arguments=[*map(str, arguments)])
        if done["code"]:
            raise RuntimeError(f"{main_class} exited with {done['code']}:\n{done['said']}")
        return str(done["said"])


#: As kcat says it, eager and cooperative.
REBALANCED = re.compile(r"rebalanced.*?(assign|revoke)(.*)")
LISTED = re.compile(r"(\S+) \[(\d+)\]")


class KcatMember(Member):
    """A kcat of its own; what it prints is read by threads."""

    def __init__(self, host: KcatHost, command: Sequence[str], group: str) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True)
        super().__init__(host, self.process.pid, group)
        self._said: list[str] = []
        self._heard: list[str] = []
        self._told = 0
        assert self.process.stdout is not None and self.process.stderr is not None
        self._threads = [
            threading.Thread(target=self._said.extend, args=(self.process.stderr,), daemon=True),
            threading.Thread(target=self._heard.extend, args=(self.process.stdout,), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def look(self) -> None:
        heard = self._heard[self._told :]
        self._told += len(heard)
        self.rows += [
            Row(row["topic"], row["partition"], row["offset"], row["payload"]) for row in map(json.loads, heard)
        ]
        self.assigned, self.events = set(), []
        for found in filter(None, map(REBALANCED.search, list(self._said))):
            places = {(topic, int(partition)) for topic, partition in LISTED.findall(found[2])}
            self.assigned = self.assigned | places if found[1] == "assign" else self.assigned - places
            self.events.append(("assigned" if found[1] == "assign" else "revoked", places))
        if self.process.poll():
            self.error = refusal("".join(self._said)).code

    def leave(self) -> None:
        self.process.terminate()
        self.end()

    def end(self) -> None:
        self.process.wait(WAIT_S)
        for thread in self._threads:
            thread.join(WAIT_S)
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()


class KcatHost(Host):
    """No process of its own: each member is one. It commits what it read, and knows no other way to."""

    name = "kcat"
    abilities = frozenset({"static", "cooperative", "regex", "follow"})

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._members: list[KcatMember] = []
        self.kill = self._kill
        self.close = self._kill

    def join(self, group: str, *topics: str, pattern: str | None = None, **wanted: Any) -> Member:
        settings = {
            "partition.assignment.strategy": wanted.get("assignor", "range"),
            "isolation.level": wanted.get("isolation", "read_uncommitted"),
            "session.timeout.ms": wanted.get("session_ms", SESSION_MS),
            "heartbeat.interval.ms": 300,
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 1000,
            "fetch.wait.max.ms": 100,
            **({"group.instance.id": wanted["instance"]} if "instance" in wanted else {}),
        }
        options = [part for name, value in settings.items() for part in ("-X", f"{name}={value}")]
        command = ["kcat", "-b", self._bootstrap, "-G", group, "-J", "-u", *options, *topics, *filter(None, [pattern])]
        self._members.append(KcatMember(self, command, group))
        return self._members[-1]

    def said(self) -> list[str]:
        return []

    def _kill(self) -> None:
        for member in self._members:
            if member.process.poll() is None:
                member.process.kill()
                member.end()


HOSTS: dict[str, type[Host]] = {
    host.name: host for host in (KcatHost, ConfluentHost, KafkaPythonHost, AioHost, KafkaJsHost, JavaHost)
}


def each_host(*abilities: str) -> pytest.MarkDecorator:
    """One run of the test for each client that has these abilities."""
    chosen = [host.name for host in HOSTS.values() if host.abilities.issuperset(abilities)]
    return pytest.mark.parametrize("host", chosen, indirect=True)


def until(is_so: Callable[[], bool], *members: Member, timeout_s: float = WAIT_S) -> None:
    """Look at the members until it is so, or fail showing them."""
    deadline = time.monotonic() + timeout_s
    while True:
        for member in members:
            member.look()
        if is_so():
            return
        assert time.monotonic() < deadline, f"it never came to be: {members}\n{_said_by(members)}"
        time.sleep(0.02)


def _said_by(members: Iterable[Member]) -> str:
    return "\n".join(f"{host.name}: {line}" for host in {member.host for member in members} for line in host.said())


def settled(places: Iterable[Place], *members: Member) -> None:
    """Wait until the members hold all these places, each place once, and each member its fair share."""
    wanted = sorted(places)
    fair = {len(wanted) // len(members), -(-len(wanted) // len(members))}
    until(
        lambda: (
            sorted(place for member in members for place in member.assigned) == wanted
            and {len(member.assigned) for member in members} <= fair
        ),
        *members,
    )


def places_of(topic: str, partitions: int) -> set[Place]:
    return {(topic, partition) for partition in range(partitions)}


@contextmanager
def leaving(*members: Member) -> Iterator[None]:
    """Members that leave in the end, whatever came."""
    try:
        yield
    finally:
        for member in members:
            member.leave()
