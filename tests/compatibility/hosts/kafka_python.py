"""Members and transactions of kafka-python."""

from __future__ import annotations

import sys
import warnings
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # It reads its schemas in a way Python means to drop.
    from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor

from tests.compatibility.hosts.polled import HEARTBEAT_MS, POLL_MS, WAIT_S, Diary, Polled, serve

ASSIGNORS = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, diary: Diary) -> None:
        self._diary = diary

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._diary.note("assigned", assigned)

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._diary.note("revoked", revoked)

    def on_partitions_lost(self, lost: Any) -> None:
        self._diary.note("lost", lost)


class Member(Polled):
    def __init__(self, bootstrap: str, *, group: str, **wanted: Any) -> None:
        super().__init__()
        self.consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            group_instance_id=wanted["instance"],
            partition_assignment_strategy=[ASSIGNORS[wanted["assignor"]]],
            auto_offset_reset="earliest",
            enable_auto_commit=wanted["auto_commit"],
            isolation_level=wanted["isolation"],
            session_timeout_ms=wanted["session_ms"],
            heartbeat_interval_ms=HEARTBEAT_MS,
            metadata_max_age_ms=1000,
            fetch_max_wait_ms=100,
        )
        self.consumer.subscribe(topics=wanted["topics"] or (), pattern=wanted["pattern"], listener=Listener(self.diary))
        # Where it joins before it knows the partitions, it joins again; and where a poll ends just then, it forgets the
        # second assignment, whatever a broker does (3.0.12).
        for topic in wanted["topics"] or ():
            self.consumer.partitions_for_topic(topic)
        self.start()

    def poll(self) -> None:
        for rows in self.consumer.poll(POLL_MS).values():
            for row in rows:
                self.diary.records.append([row.topic, row.partition, row.offset, (row.value or b"").decode()])

    def assignment(self) -> Any:
        return self.consumer.assignment()

    def commit(self, mode: str, offsets: Any) -> None:
        wanted = by_place(offsets) if offsets else None
        if mode == "sync":
            self.do(lambda: self.consumer.commit(wanted))
            return
        future = self.do(lambda: self.consumer.commit_async(wanted))
        while not future.is_done:
            self.do(lambda: None)  # The thread polls meanwhile, and that brings the answer.
        if future.failed():
            raise future.exception


def by_place(rows: Any) -> dict[TopicPartition, OffsetAndMetadata]:
    return {
        TopicPartition(topic, partition): OffsetAndMetadata(offset, *(metadata or [""]), -1)
        for topic, partition, offset, *metadata in rows
    }


class Host:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.members: list[Member] = []
        self.producers: list[Any] = []

    def join(self, protocol: str, **wanted: Any) -> int:
        assert protocol == "classic", "kafka-python knows no other"
        self.members.append(Member(self.bootstrap, **wanted))
        return len(self.members) - 1

    def state(self, member: int) -> object:
        return self.members[member].diary.told()

    def commit(self, member: int, mode: str, offsets: Any) -> None:
        self.members[member].commit(mode, offsets)

    def committed(self, member: int, topic: str, partition: int) -> object:
        place = TopicPartition(topic, partition)
        found = self.members[member].do(lambda: self.members[member].consumer.committed(place, metadata=True))
        return None if found is None else [found.offset, found.metadata]

    def seek(self, member: int, topic: str, partition: int, offset: int) -> None:
        self.members[member].do(lambda: self.members[member].consumer.seek(TopicPartition(topic, partition), offset))

    def pause(self, member: int, places: Any) -> None:
        self.members[member].do(lambda: self.members[member].consumer.pause(*(TopicPartition(*row) for row in places)))

    def resume(self, member: int, places: Any) -> None:
        self.members[member].do(lambda: self.members[member].consumer.resume(*(TopicPartition(*row) for row in places)))

    def leave(self, member: int) -> None:
        self.members[member].end(self.members[member].consumer.close)

    def open_producer(self, transactional_id: str, timeout_ms: int) -> int:
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
        )
        producer.init_transactions()
        self.producers.append(producer)
        return len(self.producers) - 1

    def begin(self, producer: int) -> None:
        self.producers[producer].begin_transaction()

    def send(self, producer: int, topic: str, partition: int, values: list[str]) -> None:
        sent = [self.producers[producer].send(topic, value.encode(), partition=partition) for value in values]
        for future in sent:
            future.get(WAIT_S)

    def send_offsets(self, producer: int, member: int, offsets: Any) -> None:
        group = self.members[member].do(self.members[member].consumer.group_metadata)
        self.producers[producer].send_offsets_to_transaction(by_place(offsets), group)

    def commit_transaction(self, producer: int) -> None:
        self.producers[producer].commit_transaction()

    def abort_transaction(self, producer: int) -> None:
        self.producers[producer].abort_transaction()


if __name__ == "__main__":
    serve(Host(sys.argv[1]))
