"""The records of MirrorMaker's own topics, byte for byte: heartbeats, offset syncs, checkpoints."""

import struct
from typing import NamedTuple

from millstream.model.errors import CorruptFrame
from millstream.model.ids import TopicPartition

_VERSION = 0
_SHORT = struct.Struct(">h")
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_TWO_LONGS = struct.Struct(">qq")


class Encoded(NamedTuple):
    """A record's key and value."""

    key: bytes
    value: bytes


class Heartbeat(NamedTuple):
    """The flow from ``source`` to ``target`` is up."""

    source: str
    target: str
    timestamp_ms: int

    def encode(self) -> Encoded:
        return Encoded(
            _string(self.source) + _string(self.target), _SHORT.pack(_VERSION) + _LONG.pack(self.timestamp_ms)
        )

    @staticmethod
    def decode(key: bytes, value: bytes) -> "Heartbeat":
        names, body = _Reader(key), _versioned(value)
        return Heartbeat(names.string(), names.string(), body.int64())


class OffsetSync(NamedTuple):
    """The record of ``upstream_offset`` in the source's partition is the one of ``offset`` in the target's."""

    partition: TopicPartition
    upstream_offset: int
    offset: int

    def encode(self) -> Encoded:
        topic, number = self.partition
        return Encoded(_string(topic) + _INT.pack(number), _TWO_LONGS.pack(self.upstream_offset, self.offset))

    @staticmethod
    def decode(key: bytes, value: bytes) -> "OffsetSync":
        place, body = _Reader(key), _Reader(value)
        return OffsetSync(TopicPartition(place.string(), place.int32()), body.int64(), body.int64())


class Checkpoint(NamedTuple):
    """A group that is at ``upstream_offset`` goes on at ``offset`` in the target's partition."""

    group: str
    partition: TopicPartition
    upstream_offset: int
    offset: int
    metadata: str = ""

    def encode(self) -> Encoded:
        topic, number = self.partition
        offsets = _TWO_LONGS.pack(self.upstream_offset, self.offset)
        return Encoded(
            _string(self.group) + _string(topic) + _INT.pack(number),
            _SHORT.pack(_VERSION) + offsets + _string(self.metadata),
        )

    @staticmethod
    def decode(key: bytes, value: bytes) -> "Checkpoint":
        place, body = _Reader(key), _versioned(value)
        group, partition = place.string(), TopicPartition(place.string(), place.int32())
        return Checkpoint(group, partition, body.int64(), body.int64(), body.string())


def _string(text: str) -> bytes:
    encoded = text.encode()
    return _SHORT.pack(len(encoded)) + encoded


class _Reader:
    """Fields one after the other; CorruptFrame where there are not enough bytes for one."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _number(self, kind: struct.Struct) -> int:
        try:
            (number,) = kind.unpack_from(self._data, self._at)
        except struct.error:
            raise CorruptFrame("a record of a mirror's own topic is cut short") from None
        self._at += kind.size
        return int(number)

    def int16(self) -> int:
        return self._number(_SHORT)

    def int32(self) -> int:
        return self._number(_INT)

    def int64(self) -> int:
        return self._number(_LONG)

    def string(self) -> str:
        length = self.int16()
        text = self._data[self._at : self._at + length]
        if length < 0 or len(text) < length:
            raise CorruptFrame("a record of a mirror's own topic is cut short")
        self._at += length
        return text.decode(errors="replace")


def _versioned(value: bytes) -> _Reader:
    body = _Reader(value)
    version = body.int16()
    if version != _VERSION:
        raise CorruptFrame(f"a record of version {version}, only {_VERSION} is known")
    return body
