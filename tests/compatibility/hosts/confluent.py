"""Members and transactions of confluent-kafka."""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.compatibility.hosts.polled import HEARTBEAT_MS, POLL_MS, WAIT_S, Polled, serve


class Member(Polled):
    def __init__(self, bootstrap: str, *, group: str, protocol: str, **wanted: Any) -> None:
        super().__init__()
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": wanted["auto_commit"],
            "isolation.level": wanted["isolation"],
            "topic.metadata.refresh.interval.ms": 1000,
            "fetch.wait.max.ms": 100,
            "on_commit": self._on_commit,
            "log_level": 0,
        }
        self._is_to_leave = not wanted["instance"] and protocol == "classic"
        if wanted["instance"]:
            settings["group.instance.id"] = wanted["instance"]
        if protocol == "classic":
            settings["partition.assignment.strategy"] = wanted["assignor"]
            settings["session.timeout.ms"] = wanted["session_ms"]
            settings["heartbeat.interval.ms"] = HEARTBEAT_MS
        elif wanted["assignor"]:
            settings["group.remote.assignor"] = wanted["assignor"]
        self.consumer: Any = Consumer(settings)
        self._answers: list[Any] = []
        self._answered = threading.Event()
        self.consumer.subscribe(
            wanted["topics"] or [wanted["pattern"]],
            on_assign=lambda _, places: self.diary.note("assigned", places),
            on_revoke=lambda _, places: self.diary.note("revoked", places),
            on_lost=lambda _, places: self.diary.note("lost", places),
        )
        self.start()

    def poll(self) -> None:
        row = self.consumer.poll(POLL_MS / 1000)
        if row is None:
            return
        if (error := row.error()) is not None:
            raise KafkaException(error)
        self.diary.records.append([row.topic(), row.partition(), row.offset(), (row.value() or b"").decode()])

    def assignment(self) -> Any:
        return self.consumer.assignment()

    def close(self) -> None:
        """Leave the group, and close then.

        librdkafka 2.16 waits for ever, and holds Python's lock meanwhile, where partitions are given to a consumer that
        is being closed (its issue 4884). A static member does not leave.
        """
        if self._is_to_leave:
            self.consumer.unsubscribe()
            deadline = time.monotonic() + WAIT_S / 2
            while self.consumer.memberid() and time.monotonic() < deadline:
                self.consumer.poll(POLL_MS / 1000)
        self.consumer.close()

    def _on_commit(self, error: Any, _: Any) -> None:
        self._answers.append(error)
        self._answered.set()

    def commit(self, mode: str, offsets: Any) -> None:
        given = {"offsets": [place(*row) for row in offsets]} if offsets else {}
        self._answered.clear()
        done = self.do(lambda: self.consumer.commit(asynchronous=mode == "async", **given))
        if mode == "async":
            assert self._answered.wait(WAIT_S), "no answer to the commit"
            if (error := self._answers[-1]) is not None:
                raise KafkaException(error)
        for row in done or ():
            if row.error is not None:
                raise KafkaException(row.error)


def place(topic: str, partition: int, offset: int = -1001, metadata: str | None = None) -> TopicPartition:
    return TopicPartition(topic, partition, offset, **({"metadata": metadata} if metadata else {}))  # type: ignore[arg-type]


class Host:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.members: list[Member] = []
        self.producers: list[Producer] = []

    def join(self, **wanted: Any) -> int:
        self.members.append(Member(self.bootstrap, **wanted))
        return len(self.members) - 1

    def state(self, member: int) -> object:
        return self.members[member].diary.told()

    def commit(self, member: int, mode: str, offsets: Any) -> None:
        self.members[member].commit(mode, offsets)

    def committed(self, member: int, topic: str, partition: int) -> object:
        asked = self.members[member]
        (found,) = asked.do(lambda: asked.consumer.committed([place(topic, partition)], timeout=WAIT_S))
        return None if found.offset < 0 else [found.offset, found.metadata or ""]

    def seek(self, member: int, topic: str, partition: int, offset: int) -> None:
        self.members[member].do(lambda: self.members[member].consumer.seek(place(topic, partition, offset)))

    def pause(self, member: int, places: Any) -> None:
        self.members[member].do(lambda: self.members[member].consumer.pause([place(*row) for row in places]))

    def resume(self, member: int, places: Any) -> None:
        self.members[member].do(lambda: self.members[member].consumer.resume([place(*row) for row in places]))

    def leave(self, member: int) -> None:
        self.members[member].end(self.members[member].close)

    def open_producer(self, transactional_id: str, timeout_ms: int) -> int:
        settings = {
            "bootstrap.servers": self.bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "linger.ms": 0,
            "log_level": 0,
        }
        producer = Producer(settings)
        producer.init_transactions(WAIT_S)
        self.producers.append(producer)
        return len(self.producers) - 1

    def begin(self, producer: int) -> None:
        self.producers[producer].begin_transaction()

    def send(self, producer: int, topic: str, partition: int, values: list[str]) -> None:
        failures: list[Any] = []

        def told(error: Any, _: Any) -> None:
            if error is not None:
                failures.append(error)

        for value in values:
            self.producers[producer].produce(topic, value.encode(), partition=partition, on_delivery=told)
        self.producers[producer].flush(WAIT_S)
        if failures:
            raise KafkaException(failures[0])

    def send_offsets(self, producer: int, member: int, offsets: Any) -> None:
        group = self.members[member].do(self.members[member].consumer.consumer_group_metadata)
        self.producers[producer].send_offsets_to_transaction([place(*row) for row in offsets], group, WAIT_S)

    def commit_transaction(self, producer: int) -> None:
        self.producers[producer].commit_transaction(WAIT_S)

    def abort_transaction(self, producer: int) -> None:
        self.producers[producer].abort_transaction(WAIT_S)


if __name__ == "__main__":
    serve(Host(sys.argv[1]))
