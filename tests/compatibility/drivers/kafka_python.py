"""kafka-python: the client written in Python alone."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # It reads its schemas in a way Python means to drop.
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition, errors
    from kafka.admin import ConfigResource, ConfigResourceType
    from kafka.errors import KafkaError, OffsetOutOfRangeError, for_code

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

logging.getLogger("kafka").setLevel(logging.CRITICAL)


@contextmanager
def refusals() -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        raise Refused(getattr(error, "errno", -1), repr(error)) from error


class KafkaPythonReader(Reader):
    def __init__(self, bootstrap: str, topic: str, partition: int, start: Start) -> None:
        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            fetch_max_wait_ms=200,
        )
        self._place = TopicPartition(topic, partition)
        self._consumer.assign([self._place])
        with refusals():
            self._seek(start)

    def _seek(self, start: Start) -> None:
        if isinstance(start, At):
            found = self._consumer.offsets_for_times({self._place: start.timestamp_ms})[self._place]
            assert found is not None, "no record is that young"
            self._consumer.seek(self._place, found.offset)
        elif start == EARLIEST:
            self._consumer.seek_to_beginning(self._place)
        elif start == LATEST:
            self._consumer.seek_to_end(self._place)
        else:
            self._consumer.seek(self._place, start)
        self._consumer.position(self._place)

    def poll(self, timeout_s: float) -> list[Received]:
        with refusals():
            try:
                rows = self._consumer.poll(int(timeout_s * 1000))
            except OffsetOutOfRangeError as error:
                raise Refused(OffsetOutOfRangeError.errno, str(error)) from error
        return [
            Received(row.offset, row.value, row.key, tuple(row.headers), row.timestamp)
            for row in rows.get(self._place, [])
        ]

    def close(self) -> None:
        self._consumer.close()


class KafkaPythonDriver(Driver):
    name = "kafka-python"

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        self._admin: Any = KafkaAdminClient(bootstrap_servers=bootstrap)

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
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap,
            compression_type=None if codec == "none" else codec,
            acks="all" if acks == ALL_ACKS else acks,
            enable_idempotence=idempotent,
            linger_ms=500,
            batch_size=8 << 20,
            max_request_size=16 << 20,
        )
        try:
            with refusals():
                sent = [
                    producer.send(
                        topic,
                        record.value,
                        record.key,
                        headers=list(record.headers),
                        partition=partition,
                        timestamp_ms=record.timestamp_ms,
                    )
                    for record in records
                ]
                producer.flush(WAIT_S)
                return [future.get(WAIT_S).offset for future in sent]
        finally:
            producer.close(WAIT_S)

    def read(self, topic: str, start: Start, *, partition: int = 0) -> Reader:
        return KafkaPythonReader(self.bootstrap, topic, partition, start)

    def list_offset(self, topic: str, timestamp: int, *, partition: int = 0) -> int:
        place = TopicPartition(topic, partition)
        with refusals():
            found = self._admin.list_partition_offsets({place: timestamp})[place]
        return -1 if found is None else int(found.offset)

    def max_timestamp_offset(self, topic: str) -> int:
        return self.list_offset(topic, -3)

    def create_topic(
        self, topic: str, *, partitions: int = 1, replicas: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        wanted = {"num_partitions": partitions, "replication_factor": replicas, "configs": dict(configs or {})}
        with refusals():
            self._admin.create_topics({topic: wanted})

    def delete_topic(self, topic: str) -> None:
        with refusals():
            self._admin.delete_topics([topic])

    def create_partitions(self, topic: str, total: int) -> None:
        with refusals():
            self._admin.create_partitions({topic: total})

    def delete_records(self, topic: str, before_offset: int, *, partition: int = 0) -> int:
        place = TopicPartition(topic, partition)
        with refusals():
            return int(self._admin.delete_records({place: before_offset})[place]["low_watermark"])

    def list_topics(self) -> set[str]:
        return set(self._admin.list_topics())

    def describe_topic(self, topic: str) -> list[Partition]:
        with refusals():
            (found,) = self._admin.describe_topics([topic])
            if found["error_code"]:
                raise for_code(found["error_code"])
        rows = sorted(found["partitions"], key=lambda row: int(row["partition_index"]))
        return [
            Partition(row["partition_index"], row["leader_id"], tuple(row["replica_nodes"]), tuple(row["isr_nodes"]))
            for row in rows
        ]

    def describe_cluster(self) -> Cluster:
        with refusals():
            found = self._admin.describe_cluster()
        brokers = {row["broker_id"]: f"{row['host']}:{row['port']}" for row in found["brokers"]}
        return Cluster(found["cluster_id"], found["controller_id"], brokers)

    def describe_log_dirs(self, topic: str) -> dict[int, int]:
        with refusals():
            brokers = self._admin.describe_log_dirs([topic])
        return {
            row["partition_index"]: row["partition_size"]
            for broker in brokers
            for folder in broker["log_dirs"]
            for found in folder["topics"]
            for row in found["partitions"]
        }

    def describe_configs(self, topic: str) -> dict[str, str | None]:
        return self._describe(ConfigResourceType.TOPIC, topic)

    def describe_broker_configs(self, broker: int) -> dict[str, str | None]:
        return self._describe(ConfigResourceType.BROKER, str(broker))

    def _describe(self, kind: ConfigResourceType, name: str) -> dict[str, str | None]:
        with refusals():
            found = self._admin.describe_configs([ConfigResource(kind, name)], config_filter="all")
        (rows,) = found[kind.name.lower()].values()
        return {key: row["value"] for key, row in rows.items()}

    def alter_configs(self, topic: str, changes: Mapping[str, str | None]) -> None:
        configs = {name: ("DELETE", None) if value is None else ("SET", value) for name, value in changes.items()}
        self._alter(topic, configs, incremental=True)

    def _alter(self, topic: str, configs: Mapping[str, Any], *, incremental: bool) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, dict(configs))
        with refusals():
            found = self._admin.alter_configs([resource], raise_on_unknown=False, incremental=incremental)
        outcome = found["topic"][topic]
        if outcome != "OK":  # The client hands out text: "[Error 40] InvalidConfigError: ..."
            raise Refused(int(outcome.split("]")[0].removeprefix("[Error ")), outcome)

    def list_groups(self) -> set[str]:
        with refusals():
            return {row["group_id"] for row in self._admin.list_groups()}

    def describe_group(self, group: str) -> Group:
        with refusals():
            found = self._admin.describe_groups([group])[group]
        return Group(found["group_state"], found["protocol_data"], len(found["members"]))

    def group_offsets(self, group: str, topic: str) -> dict[int, int]:
        with refusals():
            found = self._admin.list_group_offsets({group: None})[group]
        return {place.partition: row.offset for place, row in found.items() if place.topic == topic}

    def set_group_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        wanted = {TopicPartition(topic, index): OffsetAndMetadata(offset, "", -1) for index, offset in offsets.items()}
        with refusals():
            for outcome in self._admin.alter_group_offsets(group, wanted).values():
                if outcome.errno:
                    raise outcome()

    def delete_group(self, group: str) -> None:
        with refusals():
            outcome = self._admin.delete_groups([group])[group]
            if outcome != "OK":  # The name of an error's class.
                raise getattr(errors, outcome)()

    def close(self) -> None:
        self._admin.close()
