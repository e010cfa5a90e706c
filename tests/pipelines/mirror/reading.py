"""What topics hold, to the last detail, by a client that is not ours; and what groups have of them."""

from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError
from confluent_kafka import TopicPartition as Place

TIMEOUT_S = 30


class Found(NamedTuple):
    """A record, without its offset, which is each cluster's own."""

    timestamp: tuple[int, int]
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def contents(address: str, topic: str) -> dict[int, list[Found]]:
    """The committed records of each partition, in order."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "console-consumer-contents",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 2,
        }
    )
    try:
        partitions = consumer.list_topics(topic, TIMEOUT_S).topics[topic].partitions
        consumer.assign([Place(topic, number, OFFSET_BEGINNING) for number in partitions])
        found: dict[int, list[Found]] = {number: [] for number in partitions}
        left = set(partitions)
        while left:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, f"{topic} could not be read to its end"
            partition, error = message.partition(), message.error()
            assert partition is not None
            if error is None:
                headers: Any = message.headers() or ()
                found[partition].append(Found(message.timestamp(), message.key(), message.value(), tuple(headers)))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                left.discard(partition)
        return found
    finally:
        consumer.close()


def consume(address: str, group: str, topics: list[str], count: int, *, more_s: float = 0.0) -> list[bytes | None]:
    """So many values as a member of the group, which commits what it read and leaves."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 2,
        }
    )
    consumer.subscribe(topics)
    found: list[bytes | None] = []
    try:
        while True:
            message = consumer.poll(TIMEOUT_S if len(found) < count else more_s)
            if message is None:
                break
            assert message.error() is None, message.error()
            found.append(message.value())
            if len(found) >= count and not more_s:
                break
        consumer.commit(asynchronous=False)
        return found
    finally:
        consumer.close()
