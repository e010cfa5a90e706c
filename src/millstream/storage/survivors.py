"""The batches that are left of a chunk once it is known which of their records stay."""

from typing import NamedTuple

import numpy as np

from millstream.model.batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    BatchHeader,
)
from millstream.model.columns import record_starts
from millstream.model.compression import codec
from millstream.model.records import assemble, payload_of
from millstream.model.varint import decode_varint, encode_varint
from millstream.storage.chunk import Chunk, Flags, Ints, Records
from millstream.storage.cleaned_segment import OutBatch


class Survival(NamedTuple):
    """What was decided about a chunk: arrays over ``records``' rows, then over the chunk's batches."""

    records: Records
    stays: Flags
    is_tombstone: Flags
    #: All of the batch's records stay, and were not looked at.
    is_untouched: Flags
    #: A marker without any data of its transaction: its time starts to run.
    ends_empty: Flags
    #: The batch stays even when none of its records does.
    must_stay: Flags
    #: When what is marked now may go.
    horizon_ms: int


def survivors(chunk: Chunk, survival: Survival) -> tuple[bytes | memoryview, list[OutBatch], int]:
    """The bytes that stay of a chunk, the batches they make up, and how many records those hold."""
    count = len(chunk)
    batch_of = survival.records.batch_of
    kept = np.bincount(batch_of[survival.stays], minlength=count)
    kept = np.where(survival.is_untouched, chunk.record_counts, kept)
    tombstones = np.bincount(batch_of[survival.stays & survival.is_tombstone], minlength=count)
    starts_to_run = ~chunk.has_horizon & (kept > 0) & ((tombstones > 0) | survival.ends_empty)
    is_empty = chunk.record_counts == 0
    is_whole = (kept == chunk.record_counts) & ~starts_to_run & (~is_empty | survival.must_stay)
    is_emptied = (kept == 0) & ~is_empty & survival.must_stay
    if is_whole.all():
        data: bytes | memoryview = memoryview(chunk.data)[: chunk.end - chunk.position]
        return data, _rows(chunk, slice(None)), int(kept.sum())
    parts: list[bytes | bytearray | memoryview] = []
    batches: list[OutBatch] = []
    whole_from = 0
    first_rows = np.searchsorted(batch_of, np.arange(count + 1)).tolist()
    for batch in [*np.flatnonzero(~is_whole).tolist(), count]:
        if batch > whole_from:
            parts.append(_bytes_of(chunk, whole_from, batch))
            batches += _rows(chunk, slice(whole_from, batch))
        whole_from = batch + 1
        if batch == count or (not kept[batch] and not is_emptied[batch]):
            continue
        rows = np.arange(first_rows[batch], first_rows[batch + 1])
        rewritten = (
            _empty(chunk.header(batch))
            if is_emptied[batch]
            else _thinned(chunk, batch, survival, rows[survival.stays[rows]], bool(starts_to_run[batch]))
        )
        parts.append(rewritten[0])
        batches.append(rewritten[1])
    return b"".join(parts), batches, int(kept.sum())


def _bytes_of(chunk: Chunk, first: int, end: int) -> memoryview:
    return memoryview(chunk.data)[int(chunk.starts[first]) : int(chunk.starts[end - 1] + chunk.sizes[end - 1])]


def _rows(chunk: Chunk, which: slice) -> list[OutBatch]:
    columns = (chunk.sizes[which], chunk.last_offsets[which], chunk.max_timestamps[which])
    return [OutBatch(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def _sealed(header: BatchHeader, payload: bytes) -> tuple[bytearray, OutBatch]:
    batch = assemble(header, payload)
    return batch, OutBatch(len(batch), header.last_offset, header.max_timestamp)


def _empty(header: BatchHeader) -> tuple[bytearray, OutBatch]:
    """The batch without its records: offsets, producer and sequence are what it is kept for."""
    attributes = header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON)
    return _sealed(header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0), b"")


def _thinned(
    chunk: Chunk, batch: int, survival: Survival, rows: Ints, starts_to_run: bool
) -> tuple[bytearray, OutBatch]:
    """The batch with some of its records, or with the time at which its tombstones or its marker may go."""
    header = chunk.header(batch)
    if survival.is_untouched[batch]:
        payload = bytes(payload_of(chunk.data, int(chunk.starts[batch]), header))
        starts: list[int] = []
        record_starts(payload, 0, len(payload), header.record_count, starts)
        ends = [*starts[1:], len(payload)]
    else:
        payload, columns = survival.records.payload, survival.records.columns
        starts = columns.record_start[rows].tolist()
        ends = (columns.record_start[rows] + columns.record_len[rows]).tolist()
        if not header.attributes & LOG_APPEND_TIME:
            newest = header.base_timestamp + int(columns.timestamp_deltas[rows].max())
            header = header._replace(max_timestamp=newest)
    header = header._replace(record_count=len(starts))
    pieces = [payload[start:end] for start, end in zip(starts, ends, strict=True)]
    if starts_to_run:
        shift = header.base_timestamp - survival.horizon_ms
        pieces = [_shifted(piece, shift) for piece in pieces]
        header = header._replace(attributes=header.attributes | DELETE_HORIZON, base_timestamp=survival.horizon_ms)
    kept = b"".join(pieces)
    return _sealed(header, codec(header.compression).compress(kept) if header.compression else kept)


def _shifted(record: bytes, shift: int) -> bytes:
    """The record with ``shift`` added to its timestamp delta, since its batch's base timestamp went the other way."""
    _, attributes_at = decode_varint(record, 0)
    delta, rest_at = decode_varint(record, attributes_at + 1)
    body = record[attributes_at : attributes_at + 1] + encode_varint(delta + shift) + record[rest_at:]
    return encode_varint(len(body)) + body
