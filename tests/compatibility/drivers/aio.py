"""aiokafka: the asyncio client, on a loop of its own in this thread."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, OffsetOutOfRangeError, for_code

from tests.compatibility.drivers.base import (
    ALL_ACKS,
    EARLIEST,
    LATEST,
    WAIT_S,
    At,
    Cluster,
    Driver,
    Group,
    Partition,
    Reader,
    Received,
    Record,
    Refused,
    Start,
)

logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
T = TypeVar("T")


@contextmanager
def refusals() -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        raise Refused(getattr(error, "errno", -1), repr(error)) from error


def raise_code(code: int, message: object) -> None:
    if code:
        raise for_code(code)(message)


class AioReader(Reader):
    def __init__(self, runner: asyncio.Runner, bootstrap: str, topic: str, partition: int, start: Start) -> None:
        self._runner = runner
        self._place = TopicPartition(topic, partition)
        self._bootstrap = bootstrap
        with refusals():
            runner.run(self._start(start))

    async def _start(self, start: Start) -> None:
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            fetch_max_wait_ms=200,
        )
        await self._consumer.start()
        self._consumer.assign([self._place])
        if isinstance(start, At):
            found = (await self._consumer.offsets_for_times({self._place: start.timestamp_ms}))[self._place]
            assert found is not None, "no record is that young"
            self._consumer.seek(self._place, found.offset)
        elif start == EARLIEST:
            await self._consumer.seek_to_beginning(self._place)
        elif start == LATEST:
            await self._consumer.seek_to_end(self._place)
        else:
            self._consumer.seek(self._place, start)
        await self._consumer.position(self._place)

    def poll(self, timeout_s: float) -> list[Received]:
        with refusals():
            try:
                rows = self._runner.run(self._poll(timeout_s))
            except OffsetOutOfRangeError as error:
                raise Refused(OffsetOutOfRangeError.errno, str(error)) from error
        return [
            Received(row.offset, row.value, row.key, tuple(row.headers), row.timestamp)
            for row in rows.get(self._place, [])
        ]

    async def _poll(self, timeout_s: float) -> dict[Any, Any]:
        found: dict[Any, Any] = await self._consumer.getmany(timeout_ms=int(timeout_s * 1000))
        return found

    def close(self) -> None:
        self._runner.run(self._stop())

    async def _stop(self) -> None:
        await self._consumer.stop()


class AioDriver(Driver):
    name = "aiokafka"

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._runner = asyncio.Runner()
        self._run(self._start())

    async def _start(self) -> None:
        self._admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await self._admin.start()

    def _run(self, work: Awaitable[T]) -> T:
        async def bounded() -> T:
            return await asyncio.wait_for(work, WAIT_S)

        with refusals():
            return self._runner.run(bounded())

    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        partition: int = 0,
        codec: str = "none",
        acks: int = ALL_ACKS,
        idempotent: bool = False,
    ) -> list[int]:
        async def send() -> list[int]:
            producer = AIOKafkaProducer(
                bootstrap_servers=self.bootstrap,
                compression_type=None if codec == "none" else codec,
                acks="all" if acks == ALL_ACKS else acks,
                enable_idempotence=idempotent,
                linger_ms=200,
                max_batch_size=8 << 20,
                max_request_size=16 << 20,
            )
            await producer.start()
            try:
                sent = [
                    await producer.send(
                        topic,
                        record.value,
                        record.key,
                        partition=partition,
                        timestamp_ms=record.timestamp_ms,
                        headers=list(record.headers),
                    )
                    for record in records
                ]
                answers = await asyncio.gather(*sent)
                return [-1 if answer is None else answer.offset for answer in answers]
            finally:
                await producer.stop()

        return self._run(send())

    def read(self, topic: str, start: Start, *, partition: int = 0) -> Reader:
        return AioReader(self._runner, self.bootstrap, topic, partition, start)

    def list_offset(self, topic: str, timestamp: int, *, partition: int = 0) -> int:
        place = TopicPartition(topic, partition)

        async def ask() -> int:
            consumer = AIOKafkaConsumer(bootstrap_servers=self.bootstrap, group_id=None)
            await consumer.start()
            try:
                if timestamp == EARLIEST:
                    return int((await consumer.beginning_offsets([place]))[place])
                if timestamp == LATEST:
                    return int((await consumer.end_offsets([place]))[place])
                found = (await consumer.offsets_for_times({place: timestamp}))[place]
                return -1 if found is None else int(found.offset)
            finally:
                await consumer.stop()

        return self._run(ask())

    def create_topic(
        self, topic: str, *, partitions: int = 1, replicas: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        async def create() -> None:
            wanted = NewTopic(topic, partitions, replicas, topic_configs=dict(configs or {}))
            answer: Any = await self._admin.create_topics([wanted])
            for _, code, message, *_ in answer.topic_errors:
                raise_code(code, message)

        self._run(create())

    def delete_topic(self, topic: str) -> None:
        async def delete() -> None:
            answer: Any = await self._admin.delete_topics([topic])
            for name, code, *_ in answer.topic_error_codes:
                raise_code(code, name)

        self._run(delete())

    def create_partitions(self, topic: str, total: int) -> None:
        self._run(self._admin.create_partitions({topic: NewPartitions(total)}))

    def delete_records(self, topic: str, before_offset: int, *, partition: int = 0) -> int:
        place = TopicPartition(topic, partition)
        return int(self._run(self._admin.delete_records({place: RecordsToDelete(before_offset)}))[place])

    def list_topics(self) -> set[str]:
        return set(self._run(self._admin.list_topics()))

    def describe_topic(self, topic: str) -> list[Partition]:
        async def describe() -> list[Any]:
            (found,) = await self._admin.describe_topics([topic])
            raise_code(found["error_code"], topic)
            return list(found["partitions"])

        rows = sorted(self._run(describe()), key=lambda row: int(row["partition"]))
        return [Partition(row["partition"], row["leader"], tuple(row["replicas"]), tuple(row["isr"])) for row in rows]

    def describe_cluster(self) -> Cluster:
        found = self._run(self._admin.describe_cluster())
        brokers = {row["node_id"]: f"{row['host']}:{row['port']}" for row in found["brokers"]}
        return Cluster(found.get("cluster_id"), found["controller_id"], brokers)

    def describe_configs(self, topic: str) -> dict[str, str | None]:
        return self._describe(ConfigResource(ConfigResourceType.TOPIC, topic))

    def describe_broker_configs(self, broker: int) -> dict[str, str | None]:
        return self._describe(ConfigResource(ConfigResourceType.BROKER, str(broker)))

    def _describe(self, resource: ConfigResource) -> dict[str, str | None]:
        async def describe() -> dict[str, str | None]:
            (answer,) = await self._admin.describe_configs([resource])
            ((code, message, _, _, rows),) = answer.resources
            raise_code(code, message)
            return {row[0]: row[1] for row in rows}

        return self._run(describe())

    def replace_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        async def alter() -> None:
            answers = await self._admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, dict(configs))])
            ((code, message, _, _),) = answers[0].resources
            raise_code(code, message)

        self._run(alter())

    def list_groups(self) -> set[str]:
        return {row[0] for row in self._run(self._admin.list_consumer_groups())}

    def describe_group(self, group: str) -> Group:
        async def describe() -> Group:
            answers: Any = await self._admin.describe_consumer_groups([group])
            code, _, state, _, assignor, members, *_ = answers[0].groups[0]
            raise_code(code, group)
            return Group(state, assignor, len(members))

        return self._run(describe())

    def group_offsets(self, group: str, topic: str) -> dict[int, int]:
        found = self._run(self._admin.list_consumer_group_offsets(group))
        return {place.partition: row.offset for place, row in found.items() if place.topic == topic}

    def close(self) -> None:
        self._run(self._admin.close())
        self._runner.close()
