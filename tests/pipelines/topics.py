"""Topics as tests make and fill them, by a client that is not ours."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]

TIMEOUT_S = 30


class Topics:
    """Makes topics with names of their own, and puts records into them."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._admin = AdminClient({"bootstrap.servers": address, "log_level": 2})
        self._numbers = itertools.count(1)

    def new(self, partitions: int = 1, *, name: str = "", settings: Mapping[str, str] | None = None) -> str:
        """A topic that was not there before; it keeps its records, however old tests say they are."""
        name = name or f"t{next(self._numbers)}"
        made = self._admin.create_topics(
            [NewTopic(name, partitions, 1, config={"retention.ms": "-1", **(settings or {})})]
        )
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

    def groups(self) -> list[str]:
        """The ids of all groups there are."""
        return [group.group_id for group in self._admin.list_consumer_groups().result(TIMEOUT_S).valid]

    @contextmanager
    def transaction(self, transactional_id: str, topic: str, values: Iterable[str]) -> Iterator[Producer]:
        """A producer whose open transaction has put these records; ending it is left to the caller."""
        producer = Producer(
            {"bootstrap.servers": self.address, "transactional.id": f"{topic}-{transactional_id}", "log_level": 2}
        )
        producer.init_transactions(TIMEOUT_S)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value=value, partition=0)
        assert producer.flush(TIMEOUT_S) == 0
        yield producer

    def put(
        self,
        topic: str,
        values: Iterable[bytes | str | None],
        partition: int = 0,
        *,
        timestamp_ms: int = 0,
        key: bytes | None = None,
        headers: list[tuple[str, str | bytes | None]] | None = None,
    ) -> None:
        """Records in this order, all acknowledged; with a timestamp they are one millisecond apart from it on."""
        producer = Producer({"bootstrap.servers": self.address, "linger.ms": 5, "batch.size": 16_384, "log_level": 2})
        failed: list[object] = []
        for number, value in enumerate(values):
            producer.produce(
                topic,
                value=value,
                key=key,
                partition=partition,
                timestamp=timestamp_ms + number if timestamp_ms else 0,
                headers=headers,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
        assert producer.flush(TIMEOUT_S) == 0
        assert not failed, failed
