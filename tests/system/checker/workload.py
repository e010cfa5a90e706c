"""The workload: clients of every kind, faults from a seed, and the history of it all."""

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.system.checker import history
from tests.system.checker.analysis import Anomaly, History, anomalies
from tests.system.checker.clients import COMMON, TOPIC
from tests.system.checker.ground import Ground
from tests.system.checker.history import Polled

PARTITIONS = 4
#: How long clients have to end in good order, and the group to read what is left.
END_TIMEOUT_S = 150.0
CATCH_UP_TIMEOUT_S = 90.0
#: How long there is peace before a fault: by chance, and where each strikes once.
PAUSE_S = (0.5, 2.0)
BREATH_S = (0.2, 1.0)


@dataclass
class Member:
    """One client: how it is run, and which life it is in."""

    role: str
    name: str
    arguments: Sequence[str] = ()
    lives: int = 0
    process: subprocess.Popen[bytes] | None = None
    journal: Path = Path()

    def start(self, folder: Path, bootstrap: str) -> None:
        """Give it a new life, with a journal of its own."""
        self.lives += 1
        name = f"{self.name}.{self.lives}"
        self.journal = folder / f"{name}.jsonl"
        with (folder / f"{name}.log").open("wb") as output:
            command = [sys.executable, "-m", "tests.system.checker.clients", self.role, *self.arguments]
            command += ["--bootstrap", bootstrap, "--journal", str(self.journal), "--name", name]
            command += ["--partitions", str(PARTITIONS)]
            self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    def kill(self) -> None:
        """End it at once."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        """Ask it to end, once it can hear that, and wait."""
        assert self.process is not None
        while not self.journal.exists() and self.process.poll() is None:
            time.sleep(0.01)
        self.process.terminate()
        return self.process.wait(END_TIMEOUT_S)


@dataclass
class Workload:
    """A run: clients at work on a ground, under its faults and their own."""

    ground: Ground
    folder: Path
    seed: int = 0
    protocol: str = "classic"
    #: A planted bug of the consumers.
    commits_early: bool = False
    #: How many of each kind there were.
    faults: Counter[str] = field(default_factory=Counter)
    _members: list[Member] = field(default_factory=list)
    _bootstrap: str = ""

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.journals = self.folder / "journals"
        self.journals.mkdir(parents=True)
        # Consumers that are mostly at work are mostly killed at work.
        early = ["--early", "--work-s", "0.001"] if self.commits_early else []
        reading = ["--protocol", self.protocol, *early]
        self._members = [
            Member("produce", "plain-a"),
            Member("produce", "plain-b"),
            Member("transact", "txn-a"),
            Member("transact", "txn-b"),
            *(Member("consume", f"reader-{letter}", reading) for letter in "abc"),
        ]

    def run(self, seconds: float) -> list[Anomaly]:
        """Work for so long under faults by chance, come to an end in peace, and say what was wrong."""
        return self._run(lambda: self._strike_by_chance(seconds))

    def run_through(self) -> list[Anomaly]:
        """Work until each fault has struck once, in an order by chance; then as ``run``."""
        return self._run(self._strike_once_each)

    def _run(self, strike: Callable[[], None]) -> list[Anomaly]:
        try:
            self._bootstrap = self.ground.start()
            self._make_topic()
            for member in self._members:
                member.start(self.journals, self._bootstrap)
            strike()
            self._check_alive()
            for member in self._members:
                if member.role != "consume":
                    assert member.end() == 0, self._last_words(member)
            final = self._read_all()
            self._await_readers(final)
            return anomalies(History(history.read(self.journals), final))
        finally:
            for member in self._members:
                if member.process is not None:
                    member.kill()
            self.ground.end()

    # Faults.

    def _strike_by_chance(self, seconds: float) -> None:
        faults = {**self.ground.faults(), self._kill_client: 20 if self.commits_early else 4}
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            (fault,) = self.random.choices(list(faults), list(faults.values()))
            self._strike(fault, PAUSE_S)

    def _strike_once_each(self) -> None:
        faults = [*self.ground.faults(), self._kill_client]
        self.random.shuffle(faults)
        for fault in faults:
            self._strike(fault, BREATH_S)

    def _strike(self, fault: Callable[[], None], pause_s: tuple[float, float]) -> None:
        time.sleep(self.random.uniform(*pause_s))
        fault()
        self.faults[fault.__name__.strip("_")] += 1

    def _kill_client(self) -> None:
        member = self.random.choice(
            [each for each in self._members if each.role == "consume" or not self.commits_early]
        )
        member.kill()
        member.start(self.journals, self._bootstrap)

    # The end.

    def _make_topic(self) -> None:
        admin = AdminClient({**COMMON, "bootstrap.servers": self._bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(30)

    def _check_alive(self) -> None:
        """No client may end by itself, whatever is done to the broker."""
        for member in self._members:
            assert member.process is not None
            assert member.process.poll() is None, self._last_words(member)

    def _last_words(self, member: Member) -> str:
        name = f"{member.name}.{member.lives}"
        return f"{name} ended by itself:\n{(self.journals / f'{name}.log').read_text()[-3000:]}"

    def _read_all(self) -> Polled:
        """Everything that is committed, from the beginning to the end."""
        consumer = Consumer(
            {
                **COMMON,
                "bootstrap.servers": self._bootstrap,
                "group.id": f"final-{os.getpid()}",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
            }
        )
        try:
            consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
            records: list[tuple[int, int, str]] = []
            at_end: set[int] = set()
            deadline_s = time.monotonic() + CATCH_UP_TIMEOUT_S
            while len(at_end) < PARTITIONS:
                assert time.monotonic() < deadline_s, f"only partitions {at_end} could be read to their end"
                for message in consumer.consume(5_000, 1.0):
                    partition, offset, value = message.partition(), message.offset(), message.value()
                    assert partition is not None
                    if message.error() is not None:
                        at_end.add(partition)
                    elif value is not None and offset is not None:
                        records.append((partition, offset, value.decode()))
        finally:
            consumer.close()
        return Polled("final", 0, tuple(records))

    def _await_readers(self, final: Polled) -> None:
        """Let the group read what is left; what it has not read by the deadline it never will."""
        wanted = {value for _, _, value in final.records}
        deadline_s = time.monotonic() + CATCH_UP_TIMEOUT_S
        while time.monotonic() < deadline_s:
            seen = {
                value
                for event in history.read(self.journals)
                if isinstance(event, Polled)
                for _, _, value in event.records
            }
            if wanted <= seen:
                break
            if self.commits_early and self._is_caught_up():
                break
            time.sleep(1)
        for member in self._members:
            if member.role == "consume":
                assert member.end() == 0, self._last_words(member)

    def _is_caught_up(self) -> bool:
        """Whether the group has committed to within a marker of the end."""
        consumer = Consumer({**COMMON, "bootstrap.servers": self._bootstrap, "group.id": "checkers"})
        try:
            for each in consumer.committed([TopicPartition(TOPIC, number) for number in range(PARTITIONS)], 10):
                _, high = consumer.get_watermark_offsets(TopicPartition(TOPIC, each.partition), 10)
                if each.offset < high - 1:
                    return False
        finally:
            consumer.close()
        return True
