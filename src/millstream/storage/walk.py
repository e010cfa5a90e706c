"""Batch after batch through a file, by their headers alone."""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from millstream.model.batch import HEADER, HEADER_BYTES, LOG_OVERHEAD, MAGIC, BatchHeader
from millstream.model.slices import Readable

#: Enough for what lies between two index entries, in most logs.
STEP_BYTES = 8 * 1024
#: For walks over whole segments.
STRIDE_BYTES = 4 * 1024 * 1024

_LENGTH_LEAST = HEADER_BYTES - LOG_OVERHEAD
_PLACE = struct.Struct(">qi4xb6xi")


class DamagedBatch(Exception):
    """Bytes where a batch should start that cannot be one."""

    def __init__(self, position: int, detail: str) -> None:
        super().__init__(f"position {position}: {detail}")
        self.position = position


class Place(NamedTuple):
    """A batch, by where it lies in its file and in the log."""

    position: int
    size: int
    base_offset: int
    last_offset: int


def places(file: Readable, position: int, end: int, step_bytes: int = STEP_BYTES) -> Iterator[Place]:
    """Every batch from ``position`` to ``end``, where a batch must end too; DamagedBatch where that cannot be."""
    unpack = _PLACE.unpack_from
    window, start = b"", position
    previous = -1
    while position < end:
        at = position - start
        if at + HEADER_BYTES > len(window):
            window, start, at = file.read(position, min(max(step_bytes, HEADER_BYTES), end - position)), position, 0
            if len(window) < HEADER_BYTES:
                raise DamagedBatch(position, f"{len(window)} bytes are left, fewer than a batch header")
        base_offset, length, magic, delta = unpack(window, at)
        if magic != MAGIC or length < _LENGTH_LEAST or delta < 0 or base_offset <= previous:
            raise DamagedBatch(position, f"offset {base_offset}, length {length}, magic {magic} are no batch")
        size = LOG_OVERHEAD + length
        if position + size > end:
            raise DamagedBatch(position, f"a batch of {size} bytes in {end - position}")
        previous = base_offset + delta
        yield Place(position, size, base_offset, previous)
        position += size


def headers(file: Readable, position: int, end: int, step_bytes: int = STEP_BYTES) -> Iterator[tuple[int, BatchHeader]]:
    """As ``places``, with each batch's whole header."""
    unpack, make = HEADER.unpack_from, BatchHeader._make
    window, start = b"", position
    previous = -1
    while position < end:
        at = position - start
        if at + HEADER_BYTES > len(window):
            window, start, at = file.read(position, min(max(step_bytes, HEADER_BYTES), end - position)), position, 0
            if len(window) < HEADER_BYTES:
                raise DamagedBatch(position, f"{len(window)} bytes are left, fewer than a batch header")
        header = make(unpack(window, at))
        if header[3] != MAGIC or header[1] < _LENGTH_LEAST or header[6] < 0 or header[0] <= previous:
            raise DamagedBatch(position, f"offset {header[0]}, length {header[1]}, magic {header[3]} are no batch")
        size = LOG_OVERHEAD + header[1]
        if position + size > end:
            raise DamagedBatch(position, f"a batch of {size} bytes in {end - position}")
        previous = header[0] + header[6]
        yield position, header
        position += size
