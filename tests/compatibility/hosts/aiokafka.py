"""Members and transactions of aiokafka, on one loop; the lines come in by a thread."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import Any

from aiokafka import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    OffsetAndMetadata,
    TopicPartition,
)
from aiokafka.coordinator.assignors.range import RangePartitionAssignor

from tests.compatibility.hosts.polled import HEARTBEAT_MS, POLL_MS, WAIT_S, Diary, code_of, refused


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, diary: Diary) -> None:
        self._diary = diary

    async def on_partitions_assigned(self, assigned: Any) -> None:
        self._diary.note("assigned", assigned)

    async def on_partitions_revoked(self, revoked: Any) -> None:
        self._diary.note("revoked", revoked)


class Member:
    def __init__(self, bootstrap: str, *, group: str, **wanted: Any) -> None:
        self.diary = Diary()
        self.group = group
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            group_instance_id=wanted["instance"],
            partition_assignment_strategy=[RangePartitionAssignor],
            auto_offset_reset="earliest",
            enable_auto_commit=wanted["auto_commit"],
            isolation_level=wanted["isolation"],
            session_timeout_ms=wanted["session_ms"],
            heartbeat_interval_ms=HEARTBEAT_MS,
            metadata_max_age_ms=1000,
            fetch_max_wait_ms=100,
        )
        self.consumer.subscribe(topics=wanted["topics"] or (), pattern=wanted["pattern"], listener=Listener(self.diary))
        self._task = asyncio.create_task(self._poll())

    async def _poll(self) -> None:
        await self.consumer.start()
        while True:
            try:
                for rows in (await self.consumer.getmany(timeout_ms=POLL_MS)).values():
                    for row in rows:
                        self.diary.records.append([row.topic, row.partition, row.offset, (row.value or b"").decode()])
                self.diary.assigned = [[place.topic, place.partition] for place in self.consumer.assignment()]
            except Exception as error:
                self.diary.error = code_of(error)
                await asyncio.sleep(POLL_MS / 1000)

    async def leave(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.consumer.stop()


def by_place(rows: Any) -> dict[TopicPartition, OffsetAndMetadata]:
    return {
        TopicPartition(topic, partition): OffsetAndMetadata(offset, *(metadata or [""]))
        for topic, partition, offset, *metadata in rows
    }


class Host:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.members: list[Member] = []
        self.producers: list[AIOKafkaProducer] = []

    async def join(self, protocol: str, assignor: str, **wanted: Any) -> int:
        assert (protocol, assignor) == ("classic", "range"), "aiokafka knows no other that is of use here"
        self.members.append(Member(self.bootstrap, **wanted))
        return len(self.members) - 1

    async def state(self, member: int) -> object:
        return self.members[member].diary.told()

    async def commit(self, member: int, mode: str, offsets: Any) -> None:
        assert mode == "sync", "aiokafka has one way to commit"
        await self.members[member].consumer.commit(by_place(offsets) if offsets else None)

    async def committed(self, member: int, topic: str, partition: int) -> object:
        consumer, place = self.members[member].consumer, TopicPartition(topic, partition)
        found = await consumer._coordinator.fetch_committed_offsets([place])  # committed() hides the metadata.
        return [found[place].offset, found[place].metadata] if place in found else None

    async def seek(self, member: int, topic: str, partition: int, offset: int) -> None:
        self.members[member].consumer.seek(TopicPartition(topic, partition), offset)

    async def pause(self, member: int, places: Any) -> None:
        self.members[member].consumer.pause(*(TopicPartition(*row) for row in places))

    async def resume(self, member: int, places: Any) -> None:
        self.members[member].consumer.resume(*(TopicPartition(*row) for row in places))

    async def leave(self, member: int) -> None:
        await self.members[member].leave()

    async def open_producer(self, transactional_id: str, timeout_ms: int) -> int:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        await producer.start()
        self.producers.append(producer)
        return len(self.producers) - 1

    async def begin(self, producer: int) -> None:
        await self.producers[producer].begin_transaction()

    async def send(self, producer: int, topic: str, partition: int, values: list[str]) -> None:
        sent = [await self.producers[producer].send(topic, value.encode(), partition=partition) for value in values]
        await asyncio.gather(*sent)

    async def send_offsets(self, producer: int, member: int, offsets: Any) -> None:
        group = self.members[member].group
        await self.producers[producer].send_offsets_to_transaction(by_place(offsets), group)

    async def commit_transaction(self, producer: int) -> None:
        await self.producers[producer].commit_transaction()

    async def abort_transaction(self, producer: int) -> None:
        await self.producers[producer].abort_transaction()


async def serve(host: Host) -> None:
    while line := await asyncio.to_thread(sys.stdin.readline):
        question = json.loads(line)
        number, call = question.pop("id"), question.pop("call")
        try:
            answer = {"result": await asyncio.wait_for(getattr(host, call)(**question), WAIT_S)}
        except Exception as error:
            answer = refused(error)
        sys.stdout.write(json.dumps({"id": number, **answer}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    logging.disable()
    asyncio.run(serve(Host(sys.argv[1])))
