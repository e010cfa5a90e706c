"""Consumers that run in a group while a test looks at it."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaException, TopicPartition

SETTLE_TIMEOUT_S = 30.0


class Members:
    """``count`` consumers of a topic in one group, polled by a thread until the block ends; they commit nothing.

    ``protocol`` is ``classic`` or ``consumer``. Entered, every partition is assigned, as evenly as can be.
    """

    def __init__(self, bootstrap: str, group: str, topic: str, count: int, partitions: int, protocol: str) -> None:
        self._partitions = partitions
        self._consumers = [
            Consumer(
                {
                    "bootstrap.servers": bootstrap,
                    "group.id": group,
                    "client.id": f"client-{number}",
                    "group.protocol": protocol,
                    "auto.offset.reset": "earliest",
                    "enable.auto.commit": False,
                }
            )
            for number in range(count)
        ]
        for consumer in self._consumers:
            consumer.subscribe([topic])
        self._is_done = threading.Event()
        self._using = threading.Lock()
        self._thread = threading.Thread(target=self._poll, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            eventually(self._is_settled)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def commit(self, offsets: dict[int, int], topic: str, note: str = "") -> None:
        """Commit for whichever members have these partitions."""
        for consumer in self._consumers:
            with self._using:
                owned = [
                    TopicPartition(topic, each.partition, offsets[each.partition], metadata=note)
                    for each in consumer.assignment()
                    if each.partition in offsets
                ]
                if owned:
                    consumer.commit(offsets=owned, asynchronous=False)

    def _is_settled(self) -> bool:
        """Whether every partition has its member, and as few members as can be have none."""
        with self._using:
            shares = [len(consumer.assignment()) for consumer in self._consumers]
        return sum(shares) == self._partitions and shares.count(0) == max(0, len(shares) - self._partitions)

    def _poll(self) -> None:
        while not self._is_done.is_set():
            for consumer in self._consumers:
                with self._using, suppress(KafkaException):
                    consumer.poll(0.01)

    def _stop(self) -> None:
        self._is_done.set()
        self._thread.join()
        for consumer in self._consumers:
            consumer.close()


def eventually(done: Callable[[], bool]) -> None:
    """Return once ``done`` says so; an AssertionError when it does not in half a minute."""
    deadline_s = time.monotonic() + SETTLE_TIMEOUT_S
    while not done():
        assert time.monotonic() < deadline_s, "it did not come to pass"
        time.sleep(0.02)
