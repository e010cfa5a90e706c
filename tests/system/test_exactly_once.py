"""A topic is copied through ``process`` while broker and copiers are killed with -9, again and again.

Exactly once, the copy read committed holds every record once and in order; the same program at least once does not.
"""

import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

import millstream
from tests.system.broker_process import BrokerProcess
from tests.system.copier import GROUP, SINK, SOURCE

PARTITIONS = 3
FEED_PAUSE_S = 0.01
FEED_BURST = 5
PATIENCE_S = 90.0
#: What a kill strikes, and how likely.
BROKER, COPIER, BOTH, EVERYONE = "broker", "copier", "both", "everyone"
VICTIMS = (BROKER, BROKER, COPIER, COPIER, BOTH, EVERYONE)
SETTINGS: dict[str, str | int] = {
    "group.min.session.timeout.ms": 500,
    "log.segment.bytes": 1 << 20,
}


class Copier:
    """One copier process; started again under the same name, or under none, after it was killed."""

    def __init__(self, address: str, delivery: str, instance: str | None, session_ms: int, log: Path) -> None:
        self._command = [sys.executable, "-m", "tests.system.copier", "--bootstrap", address, "--delivery", delivery]
        self._command += ["--session-ms", str(session_ms)]
        self._command += ["--instance", instance] if instance else []
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self) -> None:
        assert self._process is not None
        assert self._process.poll() is None, f"the copier ended by itself:\n{self.log()}"
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        assert self._process.wait(30) == 0, f"the copier did not end well:\n{self.log()}"

    def discard(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def log(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-60:])


class Feed(threading.Thread):
    """Writes numbers into the source, each once, until it is told to stop; they are acknowledged when it has ended."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self.sent: dict[int, list[int]] = {index: [] for index in range(PARTITIONS)}
        self.stopped = threading.Event()
        self.fault: Exception | None = None
        self._address = address

    def run(self) -> None:
        chosen, number = random.Random(0), 0
        try:
            with millstream.Producer(self._address, config={"reconnect.backoff.max.ms": 200}) as producer:
                while not self.stopped.wait(FEED_PAUSE_S):
                    for _ in range(chosen.randrange(FEED_BURST)):
                        partition = chosen.randrange(PARTITIONS)
                        producer.send(SOURCE, b"%d" % number, partition=partition)
                        self.sent[partition].append(number)
                        number += 1
        except Exception as error:
            self.fault = error


class Struck(Protocol):
    """What is killed and started again under the copiers: a broker, or one of several."""

    @property
    def address(self) -> str: ...

    def kill(self) -> None: ...

    def start(self) -> object: ...


def committed(admin: millstream.Admin) -> int:
    """How many records the copiers' group has committed."""
    try:
        return sum(admin.group_offsets(GROUP).values())
    except millstream.UnknownGroup:
        return 0


class Yard:
    """A broker, its copiers and the feed; and the hand that kills them."""

    def __init__(
        self,
        folder: Path,
        delivery: str,
        instances: tuple[str | None, ...],
        seed: int,
        session_ms: int = 5_000,
        broker: Struck | None = None,
    ) -> None:
        """``broker`` is one that runs already."""
        self._random = random.Random(seed)
        self.broker = broker or BrokerProcess(folder / "data", settings=SETTINGS).start()
        with millstream.Admin(self.broker.address) as admin:
            for topic in (SOURCE, SINK):
                admin.create_topic(topic, partitions=PARTITIONS)
        self.feed = Feed(self.broker.address)
        self.copiers = [
            Copier(self.broker.address, delivery, instance, session_ms, folder / f"copier-{number}.log")
            for number, instance in enumerate(instances)
        ]

    def start(self) -> None:
        self.feed.start()
        for copier in self.copiers:
            copier.start()
        self.until_more_is_copied()

    def run(self, kills: int, victims: Sequence[str] = VICTIMS) -> None:
        """Feed and copy through so many kills, and then until everything is copied."""
        self.start()
        for _ in range(kills):
            # Mostly in the middle of the work; sometimes while those killed before are still getting up.
            if self._random.random() < 0.7:
                self.until_more_is_copied()
                time.sleep(self._random.uniform(0, 0.4))
            else:
                time.sleep(self._random.uniform(0, 1.5))
            self._kill(self._random.choice(victims))
        self.finish()

    def finish(self) -> None:
        """Feed no more, and copy what is left."""
        self.until_more_is_copied()
        self.feed.stopped.set()
        self.feed.join(PATIENCE_S)
        assert self.feed.fault is None and not self.feed.is_alive(), f"the feed failed: {self.feed.fault}"
        while (copied := self._committed()) < count(self.feed.sent):
            self._until_copied(copied + 1)
        for copier in self.copiers:
            copier.stop()

    def close(self) -> None:
        self.discard()
        self.broker.kill()

    def discard(self) -> None:
        """End feed and copiers, in whatever state they are."""
        self.feed.stopped.set()
        for copier in self.copiers:
            copier.discard()

    def _kill(self, victims: str) -> None:
        struck = {BROKER: [], COPIER: [self._random.choice(self.copiers)], EVERYONE: self.copiers}
        copiers = struck.get(victims, struck[COPIER])
        for copier in copiers:
            copier.kill()
        if victims != COPIER:
            self.broker.kill()
            self.broker.start()
        for copier in copiers:
            copier.start()

    def until_more_is_copied(self) -> None:
        self._until_copied(self._committed() + 1)

    def _until_copied(self, wanted: int) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        with millstream.Admin(self.broker.address) as admin:
            while committed(admin) < wanted:
                if time.monotonic() > deadline_s:
                    logs = "\n\n".join(copier.log() for copier in self.copiers)
                    raise AssertionError(f"nothing was copied for {PATIENCE_S:.0f} s:\n{logs}")
                time.sleep(0.05)

    def _committed(self) -> int:
        """How many records the group says it has copied."""
        with millstream.Admin(self.broker.address) as admin:
            return committed(admin)

    def copies(self, isolation: str = "read_committed", topic: str = SINK) -> dict[int, list[int]]:
        """What the copy, or another topic, holds, in each partition from its start to its end."""
        found: dict[int, list[int]] = {index: [] for index in range(PARTITIONS)}
        unread = set(found)
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.address,
                "group.id": "checker",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": isolation,
            }
        )
        consumer.assign([TopicPartition(topic, index, 0) for index in found])
        deadline_s = time.monotonic() + PATIENCE_S
        while unread and time.monotonic() < deadline_s:
            for message in consumer.consume(5_000, 0.5):
                partition, error = message.partition(), message.error()
                assert partition is not None
                if error is None:
                    found[partition].append(int(message.value() or b""))
                elif error.code() == KafkaError._PARTITION_EOF:
                    unread.discard(partition)
        consumer.close()
        assert not unread, f"partitions {unread} were never read to their end"
        return found


def difference(sent: dict[int, list[int]], found: dict[int, list[int]]) -> str:
    """In which partitions, and how, what was found is not what was sent; nothing where it is."""
    faults = []
    for partition, numbers in sent.items():
        got = found[partition]
        if got != numbers:
            at = next((at for at, pair in enumerate(zip(numbers, got, strict=False)) if pair[0] != pair[1]), len(got))
            lost, more = Counter(numbers) - Counter(got), Counter(got) - Counter(numbers)
            faults.append(
                f"partition {partition}: {len(numbers)} sent, {len(got)} found; lost {sorted(lost)[:20]}, "
                f"too many {sorted(more.elements())[:20]}; first difference at {at}"
            )
    return "; ".join(faults)


def count(found: dict[int, list[int]]) -> int:
    return sum(map(len, found.values()))


def copy_exactly_once(folder: Path, kills: int, seed: int, *instances: str | None) -> bool:
    """Copy through kills, and find each record once; whether a kill has struck a transaction."""
    yard = Yard(folder, "exactly_once", instances, seed)
    try:
        yard.run(kills)
        copies = yard.copies()
        assert not difference(yard.feed.sent, copies), f"seed {seed}: {difference(yard.feed.sent, copies)}"
        return count(yard.copies("read_uncommitted")) > count(copies)
    finally:
        yard.close()


def copy_at_least_once(folder: Path, kills: int, seed: int) -> bool:
    """The same without transactions: each record is there; whether one came twice."""
    yard = Yard(folder, "at_least_once", ("first",), seed)
    try:
        yard.run(kills, (COPIER, BOTH))
        copies = yard.copies()
        for partition, sent in yard.feed.sent.items():
            assert set(copies[partition]) == set(sent), "at least once is at least once"
        return count(copies) > count(yard.feed.sent)
    finally:
        yard.close()


def test_each_record_is_copied_once_through_kills_of_broker_and_copiers(tmp_path: Path) -> None:
    """A kill falls where it falls; one round in which none strikes a transaction has shown nothing."""
    assert any(copy_exactly_once(tmp_path / str(seed), 6, seed, "first", None) for seed in range(1, 5))


def test_the_same_program_at_least_once_copies_some_twice(tmp_path: Path) -> None:
    """So that the test before this one could fail."""
    assert any(copy_at_least_once(tmp_path / str(seed), 5, seed) for seed in range(2, 6))


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_a_copier_outlives_an_outage_longer_than_its_session(tmp_path: Path, delivery: str) -> None:
    yard = Yard(tmp_path, delivery, ("first",), 3, session_ms=1_000)
    try:
        yard.start()
        yard.broker.kill()
        time.sleep(2.5)
        yard.broker.start()
        yard.finish()
        assert {partition: sorted(set(found)) for partition, found in yard.copies().items()} == yard.feed.sent
    finally:
        yard.close()


@pytest.mark.long
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("instances", [("first",), ("first", "second"), (None, None)])
def test_each_record_is_copied_once_through_thirty_kills(
    tmp_path: Path, seed: int, instances: tuple[str | None, ...]
) -> None:
    copy_exactly_once(tmp_path, 30, seed, *instances)
