"""The header of a record batch (magic 2): read, checked and stamped without touching the records.

Layout, big-endian, 61 bytes before the first record; ``length`` counts what follows it, and the CRC-32C
covers everything from ``attributes`` on, so stamping the offset and the leader epoch leaves it valid.
"""

import struct
from typing import NamedTuple

from fastcrc.crc32 import iscsi as crc32c

from millstream.model.errors import ErrorCode, ProtocolError

#: Anything sliceable that holds batches; only ``stamp*`` need it writable.
Buffer = bytes | bytearray | memoryview

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size
#: Offset and length come first and are not counted by ``length``.
LOG_OVERHEAD = 12
MAGIC = 2
CRC_AT = 17
ATTRIBUTES_AT = 21
MAX_TIMESTAMP_AT = 35

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
#: Sequence numbers wrap to 0 after this.
SEQUENCE_MASK = 2**31 - 1
NO_TIMESTAMP = -1
NO_LEADER_EPOCH = -1

_OFFSET = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_EPOCH_AT = 12


class BatchHeader(NamedTuple):
    """The fields of a batch's header, in their order on disk."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return LOG_OVERHEAD + self.length

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MASK

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)


def header_at(buffer: Buffer, at: int = 0) -> BatchHeader:
    """The header that starts at ``at``; struct.error when fewer than 61 bytes are there."""
    return BatchHeader._make(HEADER.unpack_from(buffer, at))


def crc_holds(buffer: Buffer, at: int, header: BatchHeader) -> bool:
    """Whether the batch's bytes are the ones its CRC was made of."""
    return bool(crc32c(memoryview(buffer)[at + ATTRIBUTES_AT : at + header.size]) == header.crc)


def checked_header(records: Buffer, at: int = 0) -> BatchHeader:
    """The header of the batch a client sent at ``at``, its bytes checked, or the refusal Kafka would give.

    The header's count must equal last_offset_delta + 1: a producer numbers its records without holes.
    """
    left = len(records) - at
    if left < HEADER_BYTES:
        raise ProtocolError(ErrorCode.CORRUPT_MESSAGE, f"{left} bytes are left, fewer than a batch header")
    header = header_at(records, at)
    if header.magic != MAGIC:
        raise ProtocolError(ErrorCode.INVALID_RECORD, f"magic {header.magic}, only 2 is taken")
    if header.length < HEADER_BYTES - LOG_OVERHEAD or header.length + LOG_OVERHEAD > left:
        raise ProtocolError(ErrorCode.CORRUPT_MESSAGE, f"batch of {header.size} bytes in {left}")
    if not crc_holds(records, at, header):
        raise ProtocolError(ErrorCode.CORRUPT_MESSAGE, "the batch's CRC does not match its bytes")
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        raise ProtocolError(
            ErrorCode.INVALID_RECORD,
            f"{header.record_count} records, but last offset delta {header.last_offset_delta}",
        )
    return header


def stamp(buffer: bytearray | memoryview, at: int, base_offset: int, leader_epoch: int) -> None:
    """Write the batch's place in the log into its header; the CRC does not cover these fields."""
    _OFFSET.pack_into(buffer, at, base_offset)
    _EPOCH.pack_into(buffer, at + _EPOCH_AT, leader_epoch)


def stamp_append_time(buffer: bytearray | memoryview, at: int, header: BatchHeader, now_ms: int) -> None:
    """Mark the batch with the broker's time; its CRC is made anew."""
    _ATTRIBUTES.pack_into(buffer, at + ATTRIBUTES_AT, header.attributes | LOG_APPEND_TIME)
    _OFFSET.pack_into(buffer, at + MAX_TIMESTAMP_AT, now_ms)
    _CRC.pack_into(buffer, at + CRC_AT, crc32c(memoryview(buffer)[at + ATTRIBUTES_AT : at + header.size]))
