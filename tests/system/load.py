"""Writes to a cluster while it is struck, what became of them, and whether the replicas are the same."""

import hashlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

import millstream
from tests.system.cluster_process import ClusterProcess

TOPIC = "orders"
PARTITIONS = 6
#: The machine may be busy with other tests.
TIMEOUT_S = 60.0
#: More writes than were on their way when a fault struck.
MORE = 30


class Load:
    """Writes with acks=all, a few hundred a second; what was acknowledged, and the longest it took to be."""

    def __init__(self, bootstrap: str) -> None:
        #: Where each write lies.  A client that had to repeat one may know that it is there and no longer where.
        self.acknowledged: dict[bytes, tuple[int, int | None]] = {}
        self.refused: list[KafkaError] = []
        self.longest_s = 0.0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 1,
                # Whoever is paused or cut off from the others is not waited for long.
                "request.timeout.ms": 2_000,
                "socket.timeout.ms": 3_000,
                "log_level": 0,
            }
        )
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        number = 0
        while not self._ends.wait(0.004):
            began_s = time.monotonic()

            def delivered(error: KafkaError | None, message: Message, began_s: float = began_s) -> None:
                if error is not None:
                    self.refused.append(error)
                    return
                partition, offset, value = message.partition(), message.offset(), message.value()
                assert partition is not None and value is not None
                self.acknowledged[value] = (partition, offset)
                self.longest_s = max(self.longest_s, time.monotonic() - began_s)

            self._producer.produce(TOPIC, str(number).encode(), partition=number % PARTITIONS, on_delivery=delivered)
            self._producer.poll(0)
            number += 1

    def count_after(self, seconds: float) -> int:
        """How many were acknowledged in the time to come."""
        before = len(self.acknowledged)
        time.sleep(seconds)
        return len(self.acknowledged) - before

    def until_all_go_on(self) -> None:
        """Return once every partition has taken a few writes more than it had."""

        def counts() -> Counter[int]:
            return Counter(partition for partition, _ in self.acknowledged.copy().values())

        before = counts()

        def have_gone_on() -> bool:
            now = counts()
            return all(now[each] >= before[each] + MORE for each in range(PARTITIONS))

        until("writes do not go on in every partition", have_gone_on)

    @contextmanager
    def running(self) -> Iterator["Load"]:
        self._thread.start()
        try:
            yield self
        finally:
            self._ends.set()
            self._thread.join()
            assert self._producer.flush(TIMEOUT_S) == 0


def check_all_there(load: Load, bootstrap: str) -> None:
    """Every write that was acknowledged by now is where it was said to be, and none was refused."""
    acknowledged = load.acknowledged.copy()
    # It commits nothing, for there may be nobody left to coordinate its group.
    options = {"bootstrap.servers": bootstrap, "group.id": "check", "enable.auto.commit": False, "log_level": 0}
    consumer = Consumer(options)
    found: dict[bytes, tuple[int, int]] = {}
    twice: list[bytes] = []
    try:
        consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
        deadline_s = time.monotonic() + TIMEOUT_S
        while not found.keys() >= acknowledged.keys() and time.monotonic() < deadline_s:
            for message in consumer.consume(1000, 0.5):
                partition, offset, value = message.partition(), message.offset(), message.value()
                if message.error() is None and partition is not None and offset is not None and value is not None:
                    twice += [value] if value in found else []
                    found[value] = (partition, offset)
    finally:
        consumer.close()
    assert found.keys() >= acknowledged.keys(), f"lost: {sorted(acknowledged.keys() - found.keys())[:20]}"
    wrong = {value: place for value, place in acknowledged.items() if place[1] is not None and found[value] != place}
    assert wrong == {}, "writes are not where they were said to be"
    assert load.refused == []
    assert [value for value in twice if value in acknowledged] == [], "writes are there twice"


def until(what: str, is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not is_so():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.05)


def until_in_sync(cluster: ClusterProcess, *topics: str, count: int = 3) -> None:
    """Return once every partition has so many replicas in sync."""

    def is_so() -> bool:
        with millstream.Admin(cluster.bootstrap) as admin:
            described = [admin.describe_topic(topic) for topic in topics or (TOPIC,)]
        return all(len(each.in_sync) == count for topic in described for each in topic.partitions)

    until("the replicas are not in sync", is_so)


def check_replicas_agree(cluster: ClusterProcess, partitions: int, *topics: str) -> None:
    """Stop every broker, and compare all replicas' records byte for byte."""
    for broker in cluster.brokers.values():
        broker.stop()
    for topic in topics or (TOPIC,):
        for partition in range(partitions):
            logs = {_log_of(broker.data, topic, partition) for broker in cluster.brokers.values()}
            assert len(logs) == 1, f"the replicas of {topic}-{partition} differ: {logs}"
            assert all(size > 0 for size, _ in logs)


def _log_of(broker: Path, topic: str, partition: int) -> tuple[int, str]:
    """A replica's records: how many bytes, and what they hash to."""
    digest, size = hashlib.sha256(), 0
    for segment in sorted((broker / f"{topic}-{partition}").glob("*.log")):
        data = segment.read_bytes()
        digest.update(data)
        size += len(data)
    return size, digest.hexdigest()
