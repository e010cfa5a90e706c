"""Finding records by time, and checking what a disk gave back."""

import logging
from typing import TYPE_CHECKING

from millstream.model.batch import NO_TIMESTAMP
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.records import decode_batch
from millstream.model.slices import FileSlice
from millstream.storage.scrub import check_slice
from millstream.storage.segment import Segment
from millstream.storage.walk import STRIDE_BYTES, DamagedBatch, headers

if TYPE_CHECKING:
    from millstream.storage.log import Log

_log = logging.getLogger(__name__)


def find_timestamp(log: "Log", timestamp: int) -> tuple[int, int, int] | None:
    """Timestamp, offset and leader epoch of the first record at or after ``timestamp``."""
    if log.is_offline:
        raise log.directory.refusal()
    try:
        for segment in log.segments.since(log.start_offset):
            if segment.max_timestamp >= timestamp:
                found = segment.find_timestamp(timestamp, log.start_offset)
                if found is not None:
                    return found
    except OSError as error:
        raise log.directory.fail(error) from error
    except DamagedBatch as damage:
        raise corrupt(log, damage) from damage
    return None


def max_timestamp(log: "Log") -> tuple[int, int, int] | None:
    """Timestamp, offset and leader epoch of the first record with the greatest timestamp there is."""
    if log.is_offline:
        raise log.directory.refusal()
    try:
        segments = log.segments.since(log.start_offset)
        newest = max(segment.max_timestamp for segment in segments)
        found = find_timestamp(log, newest) if newest >= 0 else None
        if newest < 0 or found is not None:
            return found
        # The newest lies in the first segment, before the log's start.
        later = [segment.max_timestamp for segment in segments[1:]]
        newest = max([_newest_since(segments[0], log.start_offset), *later])
        return find_timestamp(log, newest) if newest >= 0 else None
    except OSError as error:
        raise log.directory.fail(error) from error
    except DamagedBatch as damage:
        raise corrupt(log, damage) from damage


def _newest_since(segment: Segment, start_offset: int) -> int:
    place = segment.find(start_offset)
    if place is None:
        return NO_TIMESTAMP
    reader = segment.reader()
    first = [record.timestamp for record in decode_batch(segment.batch(place)) if record.offset >= start_offset]
    rest = headers(reader, place.position + place.size, segment.size, STRIDE_BYTES)
    return max(first + [header.max_timestamp for _, header in rest], default=NO_TIMESTAMP)


def check(log: "Log", piece: FileSlice, offset: int) -> None:
    """Cut ``piece`` before its first damaged batch; CORRUPT_MESSAGE when that is its first."""
    try:
        check_slice(piece)
    except DamagedBatch as damage:
        _log.error("%s, segment with offset %d: %s", log.topic_partition, offset, damage)
        base_offset = log.segments.since(offset)[0].base_offset
        log.damage[base_offset] = min(damage.position, log.damage.get(base_offset, damage.position))
        if damage.position <= piece.position:
            raise corrupt(log, damage) from damage
        piece.length = damage.position - piece.position


def corrupt(log: "Log", damage: DamagedBatch) -> ProtocolError:
    """The refusal to read bytes that are not what was written."""
    return ProtocolError(ErrorCode.CORRUPT_MESSAGE, f"{log.topic_partition} is damaged: {damage}")
