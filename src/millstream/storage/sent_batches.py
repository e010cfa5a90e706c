"""The batches that a leader sent, found in the bytes they came in."""

from collections.abc import Sequence

from millstream.model.batch import HEADER_BYTES, LOG_OVERHEAD, BatchHeader, crc_holds, header_at
from millstream.model.errors import ErrorCode, ProtocolError

#: Batches in some bytes: where each starts, and its header.
Batches = Sequence[tuple[int, BatchHeader]]


def batches_from_leader(records: memoryview, expected: int) -> Batches:
    """Whole batches from offset ``expected`` on, each checked; the last may be cut short, and is then left out."""
    batches, at = [], 0
    while at + HEADER_BYTES <= len(records):
        header = header_at(records, at)
        if header.length < HEADER_BYTES - LOG_OVERHEAD or header.base_offset < expected:
            raise ProtocolError(
                ErrorCode.CORRUPT_MESSAGE, f"the leader sent offset {header.base_offset} where {expected} comes next"
            )
        if at + header.size > len(records):
            break
        if not crc_holds(records, at, header):
            raise ProtocolError(ErrorCode.CORRUPT_MESSAGE, "the CRC of a batch from the leader does not match")
        batches.append((at, header))
        at += header.size
        expected = header.next_offset
    return batches
