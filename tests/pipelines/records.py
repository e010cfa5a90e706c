"""What a topic holds, read committed, by a client that is not ours."""

from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError
from confluent_kafka import TopicPartition as Place

TIMEOUT_S = 30


class Found(NamedTuple):
    """A record as a consumer gets it."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def records_of(address: str, topic: str, *, isolation: str = "read_committed") -> list[Found]:
    """Every record of a topic, up to where each partition ends for such a reader."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 2,
        }
    )
    try:
        partitions = consumer.list_topics(topic, TIMEOUT_S).topics[topic].partitions
        consumer.assign([Place(topic, number, OFFSET_BEGINNING) for number in partitions])
        at_end: set[int] = set()
        found = []
        while len(at_end) < len(partitions):
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, f"{topic} could not be read to its end"
            partition, error = message.partition(), message.error()
            assert partition is not None
            if error is None:
                headers: Any = message.headers() or []
                found.append(Found(partition, message.key(), message.value(), headers))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                at_end.add(partition)
        return found
    finally:
        consumer.close()


def values_of(address: str, topic: str, *, isolation: str = "read_committed") -> list[bytes | None]:
    """The values alone, sorted."""
    return sorted(
        (each.value for each in records_of(address, topic, isolation=isolation)), key=lambda value: value or b""
    )
