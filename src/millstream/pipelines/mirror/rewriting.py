"""Fetched batches as they are sent on: untouched but for a few fields of their headers, wherever that will do. Pure.

A batch is sent as it is if a producer could have made it: it has all its records, and they lie within what is to be
passed on. Else its records are encoded again: what compaction left, what lies over an edge, what has a broker's time.
Markers, and the records of aborted transactions, are left out.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from fastcrc.crc32 import iscsi as crc32c

from millstream.client.reader import seen_batches
from millstream.model.batch import (
    ATTRIBUTES_AT,
    COMPRESSION_MASK,
    CRC_AT,
    LOG_APPEND_TIME,
    MAGIC,
    NO_LEADER_EPOCH,
    TRANSACTIONAL,
    BatchHeader,
    crc_holds,
    stamp,
)
from millstream.model.records import Record, decode_batch, encode_batch
from millstream.pipelines.mirror.translation import Run

_ATTRIBUTES = struct.Struct(">h")
_PRODUCER = struct.Struct(">qhi")
_PRODUCER_AT = 43
_CRC = struct.Struct(">I")


class BrokenBatch(Exception):
    """A batch that cannot be passed on, for it is not what its source took."""


class Outgoing(NamedTuple):
    """A batch on its way: bytes that may be written to, and the offsets that its records had, run by run."""

    batch: bytearray | memoryview
    records: int
    #: First offset and number of records that followed each other; downstream they all do.
    spans: tuple[tuple[int, int], ...]

    def runs(self, base_offset: int) -> Iterator[Run]:
        """What became of the offsets, for a batch that was given ``base_offset``."""
        for upstream, count in self.spans:
            yield Run(upstream, base_offset, count)
            base_offset += count


class Rewritten(NamedTuple):
    """What a fetch brought, and the offset behind it."""

    batches: list[Outgoing]
    next_offset: int


def rewritten(fetched: memoryview, aborted: list[tuple[int, int]], start: int, stop: int, what: str) -> Rewritten:
    """The fetched batches, as far as a reader of committed records between ``start`` and ``stop`` is given them."""
    found: list[Outgoing] = []
    position = start
    for at, header, is_seen in seen_batches(fetched, aborted):
        if header.magic != MAGIC:
            raise BrokenBatch(f"{what}: a batch of message format {header.magic} at offset {header.base_offset}")
        if header.base_offset >= stop:
            return Rewritten(found, stop)
        if is_seen and header.record_count and header.last_offset >= start:
            if not crc_holds(fetched, at, header):
                raise BrokenBatch(f"{what}: the batch at offset {header.base_offset} is damaged: its CRC does not hold")
            outgoing = _passed(fetched, at, header, start, stop)
            if outgoing is not None:
                found.append(outgoing)
        position = max(position, header.next_offset)
    return Rewritten(found, min(position, stop))


def _passed(fetched: memoryview, at: int, header: BatchHeader, start: int, stop: int) -> Outgoing | None:
    count = header.record_count
    is_whole = count == header.last_offset_delta + 1 and header.base_offset >= start and header.last_offset < stop
    if is_whole and not header.attributes & LOG_APPEND_TIME and not fetched.readonly:
        return Outgoing(fetched[at : at + header.size], count, ((header.base_offset, count),))
    records = [record for record in decode_batch(fetched, at, header) if start <= record.offset < stop]
    return encoded(records, header.compression) if records else None


def encoded(records: list[Record], compression: int) -> Outgoing:
    """Records as a batch of their own."""
    return Outgoing(encode_batch(records, compression=compression), len(records), _spans(records))


def halves(outgoing: Outgoing) -> tuple[Outgoing, Outgoing]:
    """A batch that is too large for its topic, as two."""
    batch = memoryview(outgoing.batch)
    offsets = [offset for first, count in outgoing.spans for offset in range(first, first + count)]
    records = [record._replace(offset=offset) for record, offset in zip(decode_batch(batch), offsets, strict=True)]
    compression = _ATTRIBUTES.unpack_from(batch, ATTRIBUTES_AT)[0] & COMPRESSION_MASK
    half = len(records) // 2
    return encoded(records[:half], compression), encoded(records[half:], compression)


def _spans(records: list[Record]) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    for record in records:
        if found and sum(found[-1]) == record.offset:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((record.offset, 1))
    return tuple(found)


def sign(batch: bytearray | memoryview, producer_id: int, producer_epoch: int, sequence: int) -> None:
    """Make the batch one of this producer's transaction."""
    view = memoryview(batch)
    stamp(view, 0, 0, NO_LEADER_EPOCH)
    attributes = _ATTRIBUTES.unpack_from(view, ATTRIBUTES_AT)[0] & COMPRESSION_MASK | TRANSACTIONAL
    _ATTRIBUTES.pack_into(view, ATTRIBUTES_AT, attributes)
    _PRODUCER.pack_into(view, _PRODUCER_AT, producer_id, producer_epoch, sequence)
    _CRC.pack_into(view, CRC_AT, crc32c(view[ATTRIBUTES_AT:]))
