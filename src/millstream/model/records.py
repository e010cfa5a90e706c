"""The records inside a batch, one by one: for clients, coordinators, checks and tests.

The broker's hot path never comes here. Whoever handles records by the million uses ``columns``, which gives the
same answers as arrays.

A record is: length, attributes (one unused byte), timestamp delta, offset delta, key, value, headers; every
number a zigzag varint, a length of -1 standing for null.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from fastcrc.crc32 import iscsi as crc32c

from millstream.model.batch import (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    CONTROL,
    CRC_AT,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
    header_at,
)
from millstream.model.compression import NONE, codec
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.varint import decode_varint, encode_varint

#: What a batch's records may decompress to; a batch that claims more is refused.
PAYLOAD_BYTES_MAX = 128 * 1024 * 1024

#: What a control record says of its producer's transaction.
ABORT = 0
COMMIT = 1

_CRC = struct.Struct(">I")
_CONTROL_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")
_MARKER_VERSION = 0

Headers = Sequence[tuple[str, bytes | None]]


class Record(NamedTuple):
    """One record; ``offset`` is its place in the log, ``timestamp`` in milliseconds since the epoch."""

    offset: int = 0
    timestamp: int = NO_TIMESTAMP
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()


class Span(NamedTuple):
    """What can be known of a batch's records only by looking at each."""

    has_null_key: bool
    timestamp_min: int
    timestamp_max: int


def invalid(detail: str) -> ProtocolError:
    """The refusal of a batch whose records are not what they should be."""
    return ProtocolError(ErrorCode.INVALID_RECORD, detail)


def assemble(header: BatchHeader, payload: Buffer) -> bytearray:
    """A batch of this header and these records as they lie on disk; length and CRC are made here."""
    return _sealed(header._replace(length=_length(payload), magic=MAGIC, crc=0), payload)


def _length(payload: Buffer) -> int:
    return HEADER_BYTES - LOG_OVERHEAD + len(payload)


def _sealed(header: tuple[int, ...], payload: Buffer) -> bytearray:
    """Header and records as one batch, its CRC filled in."""
    batch = bytearray(HEADER.pack(*header))
    batch += payload
    _CRC.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[ATTRIBUTES_AT:]))
    return batch


def encode_record(record: Record, offset_delta: int, timestamp_delta: int) -> bytes:
    """One record as it lies uncompressed in a batch."""
    _, _, key, value, headers = record
    body = b"".join(
        (
            b"\0",
            encode_varint(timestamp_delta),
            encode_varint(offset_delta),
            _sized(key),
            _sized(value),
            _encode_headers(headers) if headers else b"\0",
        )
    )
    return encode_varint(len(body)) + body


def _sized(data: bytes | None) -> bytes:
    return b"\x01" if data is None else encode_varint(len(data)) + data


def _encode_headers(headers: Headers) -> bytes:
    parts = [encode_varint(len(headers))]
    for name, value in headers:
        parts.append(_sized(name.encode()))
        parts.append(_sized(value))
    return b"".join(parts)


def _encode_records(records: Sequence[Record], base_offset: int, keep_offsets: bool) -> bytes:
    base_timestamp = records[0].timestamp
    if len(records) == 1:  # A coordinator's batches mostly are of one, and there are thousands of them in a second.
        return encode_record(records[0], records[0].offset - base_offset if keep_offsets else 0, 0)
    return b"".join(
        [
            encode_record(
                record, record.offset - base_offset if keep_offsets else at, record.timestamp - base_timestamp
            )
            for at, record in enumerate(records)
        ]
    )


def encode_batch(
    records: Sequence[Record],
    *,
    compression: int = NONE,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    transactional: bool = False,
    control: bool = False,
    append_time_ms: int | None = None,
    keep_offsets: bool = False,
) -> bytearray:
    """A batch of ``records``, numbered from ``base_offset`` on without holes, whatever offsets they carry.

    With ``keep_offsets`` each keeps its own, as in a compacted log. ``append_time_ms`` marks the batch with the
    broker's time, which then stands for every record's.
    """
    assert records, "a batch holds at least one record"
    count = len(records)
    base_timestamp = max_timestamp = records[0].timestamp
    last_offset_delta = records[-1].offset - base_offset if keep_offsets else count - 1
    payload = _encode_records(records, base_offset, keep_offsets)
    if count > 1:
        max_timestamp = max(record.timestamp for record in records)
    if compression:
        payload = codec(compression).compress(payload)
    attributes = compression
    if append_time_ms is not None:
        attributes |= LOG_APPEND_TIME
        max_timestamp = append_time_ms
    if transactional:
        attributes |= TRANSACTIONAL
    if control:
        attributes |= CONTROL
    header = (
        base_offset,
        _length(payload),
        leader_epoch,
        MAGIC,
        0,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    return _sealed(header, payload)


def encode_marker(
    kind: int,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    coordinator_epoch: int = 0,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """The control batch that ends a producer's transaction: ``COMMIT`` or ``ABORT``."""
    key = _CONTROL_KEY.pack(_MARKER_VERSION, kind)
    value = _MARKER_VALUE.pack(_MARKER_VERSION, coordinator_epoch)
    return encode_batch(
        [Record(timestamp=timestamp, key=key, value=value)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        transactional=True,
        control=True,
    )


def control_kind(record: Record) -> int:
    """``COMMIT``, ``ABORT``, or a number of a kind that came later, of a control batch's record."""
    if record.key is None or len(record.key) < _CONTROL_KEY.size:
        raise invalid("a control record without a type")
    kind: int = _CONTROL_KEY.unpack_from(record.key)[1]
    return kind


def coordinator_epoch(record: Record) -> int:
    """Which coordinator wrote a ``COMMIT`` or ``ABORT`` record."""
    if record.value is None or len(record.value) < _MARKER_VALUE.size:
        raise invalid("a marker without a coordinator epoch")
    epoch: int = _MARKER_VALUE.unpack_from(record.value)[1]
    return epoch


def payload_of(buffer: Buffer, at: int, header: BatchHeader, bytes_max: int = PAYLOAD_BYTES_MAX) -> Buffer:
    """The batch's records uncompressed: a view of ``buffer`` where they lie so, else bytes."""
    stored = memoryview(buffer)[at + HEADER_BYTES : at + header.size]
    return codec(header.compression).decompress(stored, bytes_max) if header.compression else stored


def decode_batch(buffer: Buffer, at: int = 0, header: BatchHeader | None = None) -> list[Record]:
    """Every record of the batch at ``at``, INVALID_RECORD when they are not as many or as long as they claim.

    Whoever has read the batch's header already may give it.
    """
    header = header or header_at(buffer, at)
    data = bytes(payload_of(buffer, at, header))
    try:
        records, end = _decode_records(data, header)
    except IndexError:
        raise invalid("a record is cut short") from None
    if end != len(data):
        raise invalid(f"{len(data) - end} bytes follow the last record")
    if header.attributes & LOG_APPEND_TIME:
        return [record._replace(timestamp=header.max_timestamp) for record in records]
    return records


def _decode_records(data: bytes, header: BatchHeader) -> tuple[list[Record], int]:
    """The records and where they end.

    Short keys and values are cut out in place, for speed. A field that runs past its record makes the record's end
    come out wrong, which the last check finds.
    """
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    make = tuple.__new__
    records: list[Record] = []
    at, end = 0, len(data)
    for _ in range(header.record_count):
        length, at = decode_varint(data, at)
        record_end = at + length
        if length <= 0 or record_end > end:
            raise invalid(f"a record of {length} bytes where {end - at} are left")
        timestamp_delta, at = decode_varint(data, at + 1)
        offset_delta, at = decode_varint(data, at)
        size = data[at]
        if size < 0x80 and not size & 1:
            key_at = at + 1
            at = key_at + (size >> 1)
            key: bytes | None = data[key_at:at]
        else:
            key, at = _decode_sized(data, at, record_end)
        size = data[at]
        if size < 0x80 and not size & 1:
            value_at = at + 1
            at = value_at + (size >> 1)
            value: bytes | None = data[value_at:at]
        else:
            value, at = _decode_sized(data, at, record_end)
        if data[at] == 0:
            headers: Headers = ()
            at += 1
        else:
            headers, at = decode_headers(data, at, record_end)
        if at != record_end:
            raise invalid(f"a record of {length} bytes whose fields take {length + at - record_end}")
        records.append(
            make(Record, (base_offset + offset_delta, base_timestamp + timestamp_delta, key, value, headers))
        )
    return records, at


def _decode_sized(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    length, at = decode_varint(data, at)
    if length < 0:
        if length != -1:
            raise invalid(f"a field of {length} bytes")
        return None, at
    if length > end - at:
        raise invalid(f"a field of {length} bytes where {end - at} are left")
    return data[at : at + length], at + length


def decode_headers(data: bytes, at: int, end: int) -> tuple[Headers, int]:
    """The headers of a record that ends at ``end``, from their number on, and where they end."""
    count, at = decode_varint(data, at)
    if not 0 <= count <= end - at:  # Each takes two bytes at least.
        raise invalid(f"{count} headers where {end - at} bytes are left")
    headers = []
    for _ in range(count):
        name, at = _decode_sized(data, at, end)
        if name is None:
            raise invalid("a header without a name")
        value, at = _decode_sized(data, at, end)
        headers.append((name.decode(errors="replace"), value))
    return tuple(headers), at


def check_records(buffer: Buffer, at: int, header: BatchHeader) -> Span:
    """Look at every record a producer sent: whole, numbered 0, 1, 2… and as many as the header says.

    INVALID_RECORD where that does not hold, CORRUPT_MESSAGE where they cannot be decompressed. What the walk saw
    beside that is returned, since a compacted topic refuses null keys and a topic may bound timestamps.
    """
    assert header.record_count > 0, "an empty batch never passes the check of headers"
    records = decode_batch(buffer, at)
    for expected, record in enumerate(records, header.base_offset):
        if record.offset != expected:
            delta = record.offset - header.base_offset
            raise invalid(f"record {expected - header.base_offset} of the batch has offset delta {delta}")
    timestamps = [record.timestamp for record in records]
    return Span(any(record.key is None for record in records), min(timestamps), max(timestamps))


def recompress(
    buffer: Buffer, header: BatchHeader, compression: int, at: int = 0, level: int | None = None
) -> bytearray:
    """The same batch with its records under another codec; nothing else about it changes."""
    if header.compression == compression:
        return bytearray(memoryview(buffer)[at : at + header.size])
    payload = payload_of(buffer, at, header)
    attributes = header.attributes & ~COMPRESSION_MASK | compression
    return assemble(header._replace(attributes=attributes), codec(compression).compress(payload, level))
