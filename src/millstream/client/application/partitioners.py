"""Which partition a record goes to: by its key as Kafka's Java producers choose, in turns, or as one likes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TypeAlias

from confluent_kafka import murmur2

from millstream.client.application.errors import BadSetting

#: The serialized key and the number of partitions in, a partition out.
Partitioner: TypeAlias = Callable[[bytes | None, int], int]

#: What librdkafka does by itself: murmur2 of the key as Java's; records without a key stick to a random partition
#: for a moment, so that batches fill.
KEY_HASH = "key_hash"
ROUND_ROBIN = "round_robin"


def key_hash(key: bytes | None, partitions: int) -> int:
    """The partition Kafka's Java producers choose for this key; the first for none.  For partitioners of one's own."""
    return int(murmur2(key, partitions)) if key is not None else 0


def round_robin() -> Partitioner:
    """Each record to the next partition, whatever its key."""
    turns = count()
    return lambda _key, partitions: next(turns) % partitions


def partitioner(choice: str | Partitioner) -> Partitioner | None:
    """The partitioner chosen, or None where librdkafka's own does it."""
    if callable(choice):
        return choice
    if choice == KEY_HASH:
        return None
    if choice == ROUND_ROBIN:
        return round_robin()
    raise BadSetting(f"partitioner={choice!r} is neither {KEY_HASH!r} nor {ROUND_ROBIN!r} nor a callable")
