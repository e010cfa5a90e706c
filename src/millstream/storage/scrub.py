"""Bytes that come from the disk are checked; bytes in memory were, when they were appended."""

from millstream.model.batch import HEADER_BYTES, crc_holds, header_at
from millstream.model.slices import AHEAD_BYTES, FileSlice
from millstream.storage.walk import DamagedBatch


def check_slice(piece: FileSlice) -> None:
    """DamagedBatch when a whole batch in ``piece`` is not what was written; meant for a thread, on cold reads.

    What lies behind it is brought to memory, too: the loop looks for the next batch there, and waits for no disk.
    """
    data = memoryview(piece.file.read(piece.position, piece.length + AHEAD_BYTES))[: piece.length]
    at = 0
    while at + HEADER_BYTES <= len(data):
        header = header_at(data, at)
        if header.magic != 2 or header.length < HEADER_BYTES - 12:
            raise DamagedBatch(piece.position + at, f"magic {header.magic}, length {header.length} are no batch")
        if at + header.size > len(data):
            return  # Cut by the reader's limit: the rest is checked when it is read.
        if not crc_holds(data, at, header):
            raise DamagedBatch(
                piece.position + at, f"the CRC of the batch at offset {header.base_offset} does not match"
            )
        at += header.size
