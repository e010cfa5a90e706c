"""Topics as tests make and fill them, by a client that is not ours."""

import itertools
from collections.abc import Iterable, Mapping

from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

TIMEOUT_S = 30


class Topics:
    """Makes topics with names of their own, and puts records into them."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._admin = AdminClient({"bootstrap.servers": address, "log_level": 2})
        self._producer = Producer({"bootstrap.servers": address, "linger.ms": 5, "log_level": 2})
        self._numbers = itertools.count(1)

    def new(self, partitions: int = 1, *, name: str = "", settings: Mapping[str, str] | None = None) -> str:
        """A topic that was not there before."""
        name = name or f"t{next(self._numbers)}"
        made = self._admin.create_topics([NewTopic(name, partitions, 1, config=dict(settings or {}))])
        made[name].result(TIMEOUT_S)
        return name

    def grow(self, topic: str, partitions: int) -> None:
        self._admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(TIMEOUT_S)

    def delete(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result(TIMEOUT_S)

    def cut(self, topic: str, before: int, partition: int = 0) -> None:
        """Delete the records before an offset, as retention would."""
        place = Place(topic, partition, before)
        self._admin.delete_records([place])[Place(topic, partition)].result(TIMEOUT_S)

    def put(
        self,
        topic: str,
        values: Iterable[bytes | str | None],
        partition: int = 0,
        *,
        timestamp_ms: int = 0,
        key: bytes | None = None,
        headers: list[tuple[str, bytes | None]] | None = None,
    ) -> None:
        """Records in this order, all acknowledged; with a timestamp they are one millisecond apart from it on."""
        failed: list[object] = []
        for number, value in enumerate(values):
            self._producer.produce(
                topic,
                value=value,
                key=key,
                partition=partition,
                timestamp=timestamp_ms + number if timestamp_ms else 0,
                headers=headers,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
        assert self._producer.flush(TIMEOUT_S) == 0
        assert not failed, failed
