"""Names of things: topics, partitions, and the ids Kafka gives them."""

import base64
from typing import NamedTuple

#: A topic's (or directory's) id is its 16 raw bytes: cheap to read off the wire and to look up.
Uuid = bytes

ZERO_UUID: Uuid = bytes(16)

#: Where coordinators keep groups with their offsets, and transactions.
CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE})

TOPIC_NAME_LENGTH_MAX = 249
_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


class TopicPartition(NamedTuple):
    """One partition of one topic; prints as its folder is named."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def uuid_text(uuid: Uuid) -> str:
    """A uuid as Kafka prints it: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode()


def uuid_from_text(text: str) -> Uuid:
    """The uuid that ``uuid_text`` printed; ValueError when it is none."""
    raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not a uuid: 16 bytes in base64 are wanted, {len(raw)} were given")
    return raw


def topic_name_fault(name: str) -> str | None:
    """Why ``name`` cannot name a topic, or None when it can."""
    if not name:
        return "the empty string is not a topic name"
    if name in (".", ".."):
        return f"{name!r} is not a topic name"
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        return f"a topic name has at most {TOPIC_NAME_LENGTH_MAX} characters, this has {len(name)}"
    if not _LEGAL.issuperset(name):
        return f"{name!r} has characters other than letters, digits, '.', '_' and '-'"
    return None
