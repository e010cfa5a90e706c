"""Producer state on disk: Kafka's ``.snapshot`` files, version 1.

Version and CRC-32C of the rest, then one fixed-size entry per producer, each with its last batch only.
"""

import struct
from collections.abc import Iterable

from fastcrc.crc32 import iscsi as crc32c

from millstream.model.batch import NO_SEQUENCE, SEQUENCE_MASK
from millstream.storage.producer_state import NO_OFFSET, Producer, RememberedBatch

VERSION = 1
SUFFIX = ".snapshot"
_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")


class DamagedSnapshot(Exception):
    """A snapshot file that cannot be used; an older one, or the log, has to do."""


def encode_snapshot(producers: Iterable[Producer]) -> bytes:
    """A snapshot file of the producers a log remembers."""
    entries = [_entry(producer) for producer in producers]
    body = _COUNT.pack(len(entries)) + b"".join(entries)
    return _HEAD.pack(VERSION, crc32c(body)) + body


def _entry(producer: Producer) -> bytes:
    if producer.batches:
        last = producer.batches[-1]
        sequence, offset, delta = last.last_sequence, last.last_offset, last.last_offset - last.first_offset
    else:
        sequence, offset, delta = NO_SEQUENCE, NO_OFFSET, 0
    return _ENTRY.pack(
        producer.producer_id,
        producer.epoch,
        sequence,
        offset,
        delta,
        producer.last_timestamp,
        producer.coordinator_epoch,
        producer.txn_first_offset,
    )


def decode_snapshot(data: bytes) -> list[Producer]:
    """The producers that ``encode_snapshot`` wrote; DamagedSnapshot when a byte of it is not as written."""
    if len(data) < _HEAD.size + _COUNT.size:
        raise DamagedSnapshot(f"{len(data)} bytes are too few")
    version, crc = _HEAD.unpack_from(data)
    if version != VERSION:
        raise DamagedSnapshot(f"version {version}, only {VERSION} is known")
    body = data[_HEAD.size :]
    if crc32c(body) != crc:
        raise DamagedSnapshot("the CRC does not match")
    (count,) = _COUNT.unpack_from(body)
    if len(body) != _COUNT.size + count * _ENTRY.size:
        raise DamagedSnapshot(f"{count} entries do not fill {len(body)} bytes")
    return [_producer(*fields) for fields in _ENTRY.iter_unpack(body[_COUNT.size :])]


def _producer(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    txn_first_offset: int,
) -> Producer:
    producer = Producer(producer_id, epoch)
    producer.last_timestamp = timestamp
    producer.coordinator_epoch = coordinator_epoch
    producer.txn_first_offset = txn_first_offset if txn_first_offset >= 0 else NO_OFFSET
    if last_offset >= 0:
        first_sequence = (last_sequence - offset_delta) & SEQUENCE_MASK if last_sequence >= 0 else NO_SEQUENCE
        producer.batches.append(
            RememberedBatch(first_sequence, last_sequence, last_offset - offset_delta, last_offset, timestamp)
        )
        producer.has_history = False
    return producer
