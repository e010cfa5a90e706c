"""Looking a producer's older batches up in the log.

A snapshot keeps one batch per producer, so after a restart a repeat of an older one is not remembered; it is in the
log all the same, close to its end.
"""

from millstream.storage.producer_state import BATCHES_REMEMBERED, Producer, RememberedBatch
from millstream.storage.segment import Segment
from millstream.storage.segments import Segments
from millstream.storage.walk import DamagedBatch, headers

WINDOW_BYTES = 1024 * 1024
#: A retry comes within seconds of its first try; further back is not looked.
SEARCHED_BYTES_MAX = 32 * 1024 * 1024


def older_batches(segments: Segments, producer: Producer, start_offset: int) -> list[RememberedBatch]:
    """The producer's batches of its current epoch before those remembered, oldest first; enough to remember five."""
    wanted = BATCHES_REMEMBERED - len(producer.batches)
    before = producer.batches[0].first_offset
    found: list[RememberedBatch] = []
    searched = 0
    for segment in reversed(segments.pieces(start_offset, before)):
        try:
            place = segment.find(before)
            end = place.position if place is not None else segment.size
            while end > 0 and len(found) < wanted and searched < SEARCHED_BYTES_MAX:
                start = _window_start(segment, end)
                found = _batches_of(segment, start, end, producer, start_offset) + found
                searched += end - start
                end = start
        except DamagedBatch:
            break
    return found[-wanted:] if wanted > 0 else []


def _window_start(segment: Segment, end: int) -> int:
    at = segment.offsets.rank(end - WINDOW_BYTES, by_value=True)
    return segment.offsets[at - 1][1] if at else 0


def _batches_of(segment: Segment, start: int, end: int, producer: Producer, start_offset: int) -> list[RememberedBatch]:
    return [
        RememberedBatch(
            header.base_sequence, header.last_sequence, header.base_offset, header.last_offset, header.max_timestamp
        )
        for _, header in headers(segment.reader(), start, end, WINDOW_BYTES)
        if header.producer_id == producer.producer_id
        and header.producer_epoch == producer.epoch
        and not header.is_control
        and header.base_offset >= start_offset
    ]
