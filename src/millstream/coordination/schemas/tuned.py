"""Committed offsets, of which there may be a million, read and written with as few calls as can be.

Only the shape that is written today is known here: a key of type 1, a value of version 4 with metadata that is not long
and with no tagged field but the topic's id.  Whatever looks different is left to the format's own decoder, so that
nothing here decides what is malformed.
"""

from collections.abc import Callable
from functools import lru_cache
from struct import Struct, error
from typing import Any, Final

from millstream.coordination.schemas import consumer_offsets
from millstream.coordination.schemas.consumer_offsets import FORMAT, NO_TIMESTAMP, OffsetCommitKey, OffsetCommitValue
from millstream.coordination.schemas.record import CoordinatorRecord
from millstream.model.ids import ZERO_UUID, Uuid

_KEY: Final = b"\0\1"
_VERSION: Final = 4
_PARTITION_BYTES: Final = 4
#: Version, offset, leader epoch and the length of the metadata that follows; then the time, and how many tags follow.
_HEAD: Final = Struct(">hqib")
_TAIL: Final = Struct(">qb")
_HEAD_BYTES: Final = _HEAD.size
_TAIL_BYTES: Final = _TAIL.size
#: The topic's id as the only tagged field: number 0, 16 bytes.
_ID_TAG: Final = b"\0\x10"
_ID_BYTES: Final = 16
#: A group commits again and again, and its records lie close to one another.
_NAMES_KEPT: Final = 4096

#: A length of one byte: the text's own, and one.
_SHORT_MAX: Final = 126

_read_head = _HEAD.unpack_from
_read_tail = _TAIL.unpack_from
_write_head = _HEAD.pack
_write_tail = _TAIL.pack
_read_length = Struct(">h").unpack_from
_read_partition = Struct(">i").unpack_from
_new_tuple: Final[Callable[..., Any]] = tuple.__new__
_new = object.__new__


def encode_record(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
    """Key and value as Kafka 4.3 writes them."""
    key, value = record
    if type(value) is not OffsetCommitValue or value.expire_timestamp != NO_TIMESTAMP or value.topic_id != ZERO_UUID:
        return consumer_offsets.encode_record(record)
    metadata = value.metadata.encode() if value.metadata else b""
    length = len(metadata)
    if length > _SHORT_MAX:
        return consumer_offsets.encode_record(record)
    head = _write_head(_VERSION, value.offset, value.leader_epoch, length + 1)
    return _encoded_key(key), head + metadata + _write_tail(value.commit_timestamp, 0)


@lru_cache(maxsize=_NAMES_KEPT)
def _encoded_key(key: OffsetCommitKey) -> bytes:
    return FORMAT.encode_key(key)


def decode_record(key: bytes, value: bytes | None) -> CoordinatorRecord:
    """The record these bytes are; CorruptFrame where they are none, or one we do not know."""
    if value is None or key[:2] != _KEY:
        return FORMAT.decode(key, value)
    try:
        version, offset, leader_epoch, length = _read_head(value, 0)
        tail_at = _HEAD_BYTES + length - 1
        if version != _VERSION or length <= 0:
            return FORMAT.decode(key, value)
        timestamp, tags = _read_tail(value, tail_at)
        topic_id = ZERO_UUID if tags == 0 else _topic_id(value, tail_at + _TAIL_BYTES, tags)
        names = _names(key[2:-_PARTITION_BYTES])
        if topic_id is None or names is None:
            return FORMAT.decode(key, value)
        metadata = "" if length == 1 else str(value[_HEAD_BYTES:tail_at], "utf-8")
    except (error, UnicodeDecodeError):
        return FORMAT.decode(key, value)
    partition = _read_partition(key, len(key) - _PARTITION_BYTES)
    # Built without their constructors: filling fields is all those would do.
    decoded = _new(OffsetCommitValue)
    decoded.offset = offset
    decoded.leader_epoch = leader_epoch
    decoded.metadata = metadata
    decoded.commit_timestamp = timestamp
    decoded.expire_timestamp = -1
    decoded.topic_id = topic_id
    made: CoordinatorRecord = _new_tuple(CoordinatorRecord, (_new_tuple(OffsetCommitKey, names + partition), decoded))
    return made


def _topic_id(value: bytes, at: int, tags: int) -> Uuid | None:
    """The only tagged field; None where it is another, or is not alone."""
    if tags != 1 or value[at : at + 2] != _ID_TAG or len(value) < at + 2 + _ID_BYTES:
        return None
    return Uuid(value[at + 2 : at + 2 + _ID_BYTES])


@lru_cache(maxsize=_NAMES_KEPT)
def _names(names: bytes) -> tuple[str, str] | None:
    """Group and topic, each behind its length; None where that is not what the bytes are."""
    (length,) = _read_length(names, 0)
    topic_at = 2 + length
    (topic_length,) = _read_length(names, topic_at) if length >= 0 else (-1,)
    if topic_length < 0 or topic_at + 2 + topic_length != len(names):
        return None
    return str(names[2:topic_at], "utf-8"), str(names[topic_at + 2 :], "utf-8")
