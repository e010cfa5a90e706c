"""confluent-kafka: librdkafka 2.x under Python."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from tests.compatibility.drivers.base import (
    ALL_ACKS,
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
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

OFFSET_OUT_OF_RANGE = 1
#: librdkafka's own code for "out of range, and told not to reset".
_AUTO_OFFSET_RESET = -140
_SPEC: Any = OffsetSpec  # untyped
SPECS = {EARLIEST: _SPEC.earliest(), LATEST: _SPEC.latest(), MAX_TIMESTAMP: _SPEC.max_timestamp()}
LOGICAL = {EARLIEST: -2, LATEST: -1}


@contextmanager
def refusals() -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        raise refusal(error.args[0]) from error


def refusal(error: KafkaError) -> Refused:
    code = error.code()
    return Refused(OFFSET_OUT_OF_RANGE if code == _AUTO_OFFSET_RESET else code, error.str())


def only(futures: Mapping[Any, Future[Any]]) -> Any:
    (future,) = futures.values()
    with refusals():
        return future.result(WAIT_S)


class ConfluentReader(Reader):
    def __init__(self, bootstrap: str, topic: str, partition: int, start: Start) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "none",  # librdkafka insists; nothing is ever committed or joined
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 200,
                "logger": None,
                "log_level": 0,
            }
        )
        place = TopicPartition(topic, partition)
        with refusals():
            if isinstance(start, At):
                place.offset = start.timestamp_ms
                (place,) = self._consumer.offsets_for_times([place], timeout=WAIT_S)
            elif start in LOGICAL:
                low, high = self._consumer.get_watermark_offsets(place, timeout=WAIT_S)
                place.offset = low if start == EARLIEST else high
            else:
                place.offset = start
            self._consumer.assign([place])

    def poll(self, timeout_s: float) -> list[Received]:
        deadline = time.monotonic() + timeout_s
        while (left_s := deadline - time.monotonic()) > 0:
            first = self._consumer.poll(left_s)
            if first is None:
                return []
            if (error := first.error()) is not None:
                if error.code() < 0 and error.code() != _AUTO_OFFSET_RESET:
                    continue  # librdkafka talking about itself, such as a coordinator it need not have
                raise refusal(error)
            return [received(message) for message in [first, *self._consumer.consume(10_000, timeout=0)]]
        return []

    def close(self) -> None:
        self._consumer.close()


def received(message: Message) -> Received:
    if (error := message.error()) is not None:
        raise refusal(error)
    offset = message.offset()
    assert offset is not None
    headers: Any = message.headers() or []
    return Received(offset, message.value(), message.key(), tuple(headers), message.timestamp()[1])


class ConfluentDriver(Driver):
    name = "confluent"

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

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
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "compression.type": codec,
                "acks": acks,
                "enable.idempotence": idempotent,
                "linger.ms": 2000,  # one batch, sent at the flush
                "batch.size": 8 << 20,
                "message.max.bytes": 16 << 20,
                "message.timeout.ms": 15_000,
                "log_level": 0,
            }
        )
        # A topic not yet known is queued apart, and a flush would send its records as they trickle out of there.
        producer.list_topics(topic, timeout=WAIT_S)
        outcomes: list[tuple[KafkaError | None, int]] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            outcomes.append((error, -1 if offset is None or error is not None else offset))

        for record in records:
            producer.produce(
                topic,
                record.value,
                record.key,
                partition=partition,
                headers=list(record.headers),
                on_delivery=delivered,
                timestamp=record.timestamp_ms or 0,  # 0: now
            )
        left = producer.flush(WAIT_S)
        assert left == 0 and len(outcomes) == len(records), f"{left} records were never answered"
        for error, _ in outcomes:
            if error is not None:
                raise refusal(error)
        return [max(offset, -1) for _, offset in outcomes]

    def read(self, topic: str, start: Start, *, partition: int = 0) -> Reader:
        return ConfluentReader(self.bootstrap, topic, partition, start)

    def list_offset(self, topic: str, timestamp: int, *, partition: int = 0) -> int:
        spec = SPECS.get(timestamp) or OffsetSpec.for_timestamp(timestamp)
        offset: int = only(self._admin.list_offsets({TopicPartition(topic, partition): spec})).offset
        return offset

    def max_timestamp_offset(self, topic: str) -> int:
        return self.list_offset(topic, MAX_TIMESTAMP)

    def create_topic(
        self, topic: str, *, partitions: int = 1, replicas: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        only(self._admin.create_topics([NewTopic(topic, partitions, replicas, config=dict(configs or {}))]))

    def delete_topic(self, topic: str) -> None:
        only(self._admin.delete_topics([topic]))

    def create_partitions(self, topic: str, total: int) -> None:
        only(self._admin.create_partitions([NewPartitions(topic, total)]))

    def delete_records(self, topic: str, before_offset: int, *, partition: int = 0) -> int:
        low: int = only(self._admin.delete_records([TopicPartition(topic, partition, before_offset)])).low_watermark
        return low

    def list_topics(self) -> set[str]:
        with refusals():
            return set(self._admin.list_topics(timeout=WAIT_S).topics)

    def describe_topic(self, topic: str) -> list[Partition]:
        with refusals():
            (found,) = self._admin.describe_topics(TopicCollection([topic])).values()
            rows = found.result(WAIT_S).partitions
        return [
            Partition(
                row.id, row.leader.id, tuple(node.id for node in row.replicas), tuple(node.id for node in row.isr)
            )
            for row in rows
        ]

    def describe_cluster(self) -> Cluster:
        with refusals():
            found = self._admin.describe_cluster().result(WAIT_S)
        brokers = {node.id: f"{node.host}:{node.port}" for node in found.nodes}
        return Cluster(found.cluster_id, found.controller.id, brokers)

    def describe_configs(self, topic: str) -> dict[str, str | None]:
        return self._describe(ConfigResource(ConfigResource.Type.TOPIC, topic))

    def describe_broker_configs(self, broker: int) -> dict[str, str | None]:
        return self._describe(ConfigResource(ConfigResource.Type.BROKER, str(broker)))

    def _describe(self, resource: ConfigResource) -> dict[str, str | None]:
        return {name: entry.value for name, entry in only(self._admin.describe_configs([resource])).items()}

    def alter_configs(self, topic: str, changes: Mapping[str, str | None]) -> None:
        entries = [
            ConfigEntry(
                name,
                value or "",
                incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
            )
            for name, value in changes.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
        only(self._admin.incremental_alter_configs([resource]))

    def list_groups(self) -> set[str]:
        with refusals():
            return {row.group_id for row in self._admin.list_consumer_groups().result(WAIT_S).valid}

    def describe_group(self, group: str) -> Group:
        found = only(self._admin.describe_consumer_groups([group]))
        return Group(found.state.name.title(), found.partition_assignor, len(found.members))

    def group_offsets(self, group: str, topic: str) -> dict[int, int]:
        found = only(self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))
        return {row.partition: row.offset for row in found.topic_partitions if row.topic == topic}

    def set_group_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        wanted = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        found = only(self._admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)]))
        for row in found.topic_partitions:
            if row.error is not None:
                raise refusal(row.error)

    def delete_group(self, group: str) -> None:
        only(self._admin.delete_consumer_groups([group]))

    def replace_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, set_config=dict(configs))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # Old, but clients in the field still send it.
            only(self._admin.alter_configs([resource]))
