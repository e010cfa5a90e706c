"""A run of batches read from a segment at once, their headers and records as arrays."""

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from millstream.model.batch import (
    CONTROL,
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    crc_holds,
    header_at,
)
from millstream.model.columns import Columns, decode_columns, record_starts
from millstream.model.records import payload_of
from millstream.model.slices import Readable
from millstream.storage.walk import DamagedBatch

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

#: The batch header of ``model.batch``, as numpy reads it.
_HEADER = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
assert _HEADER.itemsize == HEADER_BYTES
_LENGTH_AT = 8
_LENGTH_MAGIC = struct.Struct(">i4xb")


class Records(NamedTuple):
    """The records of some of a chunk's batches: ``columns`` point into ``payload``."""

    payload: bytes
    columns: Columns
    #: Which batch of the chunk each record belongs to.
    batch_of: Ints


class Chunk:
    """Whole batches, one after the other, that start at ``position`` of their file."""

    def __init__(self, data: bytes, position: int, starts: list[int]) -> None:
        self.data = data
        self.position = position
        self.starts = np.array(starts, np.int64)
        raw = np.frombuffer(data, np.uint8)[self.starts[:, None] + np.arange(HEADER_BYTES)]
        headers = raw.reshape(-1).view(_HEADER)
        self.sizes: Ints = headers["length"].astype(np.int64) + LOG_OVERHEAD
        self.base_offsets: Ints = headers["base_offset"].astype(np.int64)
        self.last_offsets: Ints = self.base_offsets + headers["last_offset_delta"]
        self.base_timestamps: Ints = headers["base_timestamp"].astype(np.int64)
        self.max_timestamps: Ints = headers["max_timestamp"].astype(np.int64)
        self.producer_ids: Ints = headers["producer_id"].astype(np.int64)
        self.record_counts: Ints = headers["record_count"].astype(np.int64)
        attributes = headers["attributes"].astype(np.int64)
        self.is_control: Flags = attributes & CONTROL != 0
        self.is_transactional: Flags = attributes & TRANSACTIONAL != 0
        self.has_horizon: Flags = attributes & DELETE_HORIZON != 0

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def end(self) -> int:
        """The position in the file after the last batch."""
        return self.position + int(self.starts[-1] + self.sizes[-1])

    def header(self, batch: int) -> BatchHeader:
        return header_at(self.data, int(self.starts[batch]))

    def decode(self, wanted: Flags) -> Records:
        """The records of the ``wanted`` batches, all at once; those that were compressed lie behind the chunk."""
        data, parts = self.data, [self.data]
        end = len(data)
        starts: list[int] = []
        counts = np.where(wanted, self.record_counts, 0)
        for batch in np.flatnonzero(wanted).tolist():
            at = int(self.starts[batch])
            header = header_at(data, at)
            if not crc_holds(data, at, header):
                raise DamagedBatch(self.position + at, "the batch's CRC does not match its bytes")
            if not header.compression:
                record_starts(data, at + HEADER_BYTES, at + header.size, header.record_count, starts)
                continue
            payload = bytes(payload_of(data, at, header))
            found: list[int] = []
            record_starts(payload, 0, len(payload), header.record_count, found)
            starts += [end + start for start in found]
            parts.append(payload)
            end += len(payload)
        joined = b"".join(parts) if len(parts) > 1 else data
        return Records(joined, decode_columns(joined, starts), np.repeat(np.arange(len(self)), counts))


def chunks(file: Readable, end: int, chunk_bytes: Callable[[], int]) -> Iterator[Chunk]:
    """All batches of a file up to ``end``, about ``chunk_bytes()`` at a time but never less than one."""
    position = 0
    while position < end:
        data = file.read(position, min(max(chunk_bytes(), HEADER_BYTES), end - position))
        starts, next_size = _whole_batches(data, position, end)
        if not starts:
            data = file.read(position, next_size)
            starts, _ = _whole_batches(data, position, end)
            if not starts:
                raise DamagedBatch(position, f"a batch of {next_size} bytes, of which {len(data)} are there")
        chunk = Chunk(data, position, starts)
        yield chunk
        position = chunk.end


def _whole_batches(data: bytes, position: int, end: int) -> tuple[list[int], int]:
    """Where each whole batch of ``data`` starts, and how long the first one is that is not whole."""
    starts: list[int] = []
    at = size = 0
    while at + HEADER_BYTES <= len(data):
        length, magic = _LENGTH_MAGIC.unpack_from(data, at + _LENGTH_AT)
        size = LOG_OVERHEAD + length
        if magic != MAGIC or size < HEADER_BYTES or position + at + size > end:
            raise DamagedBatch(position + at, f"length {length} and magic {magic} are no batch")
        if at + size > len(data):
            return starts, size
        starts.append(at)
        at += size
    if at < len(data) and position + len(data) == end:
        raise DamagedBatch(position + at, f"{len(data) - at} bytes are left, fewer than a batch header")
    return starts, size
