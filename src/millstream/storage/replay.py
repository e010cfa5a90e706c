"""What is known of producers and transactions, found again in the log."""

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from millstream.storage.aborted_index import AbortedIndex, AbortedTransaction, DamagedIndex
from millstream.storage.producer_state import NO_OFFSET, CompletedTransaction, ProducerStates
from millstream.storage.segment import Segment
from millstream.storage.walk import STRIDE_BYTES, DamagedBatch, headers

if TYPE_CHECKING:
    from millstream.storage.log import Log

_log = logging.getLogger(__name__)


def reload_producers(log: "Log", end_offset: int) -> None:
    """Know the producers as of ``end_offset``: from the newest snapshot, and the batches after it."""
    log.producers.clear(log.start_offset)
    # Not only from the log's start: between it and the snapshot a transaction may have ended.
    for _ in _replay(log, log.producers, end_offset, log.segments[0].base_offset, end_offset):
        pass
    log.producers.end_offset = end_offset


def ended_after(log: "Log", offset: int) -> list[CompletedTransaction]:
    """The transactions whose markers lie at ``offset`` or later."""
    if not any(producer.coordinator_epoch >= 0 for producer in log.producers):
        return []  # No marker was ever written.
    found = _replay(log, ProducerStates(), offset, log.segments[0].base_offset, log.end_offset)
    return [ended for ended in found if ended.last_offset >= offset]


def aborted_of(log: "Log", segment: Segment) -> AbortedIndex | None:
    """The segment's aborted transactions, found again in the log where the file is damaged."""
    index = segment.aborted
    if index is not None:
        try:
            index.load()
        except DamagedIndex as damage:
            _log.warning("%s is damaged and is made anew: %s", index.path, damage)
            index.replace(list(_aborted_in(log, segment)))
            index.flush()
    return index


def _aborted_in(log: "Log", segment: Segment) -> Iterator[AbortedTransaction]:
    segments = list(log.segments)
    end_offset = log.segments.end_of(segments.index(segment), log.end_offset)
    for ended in _replay(log, ProducerStates(), segment.base_offset, segments[0].base_offset, end_offset):
        if ended.is_aborted and ended.last_offset >= segment.base_offset:
            yield ended.entry


def _replay(
    log: "Log", producers: ProducerStates, known_by: int, start_offset: int, end_offset: int
) -> Iterator[CompletedTransaction]:
    """Bring ``producers`` to ``end_offset``, from a snapshot no newer than ``known_by``; what ends on the way."""
    snapshot = log.snapshots.newest(known_by)
    begin = start_offset
    if snapshot is not None:
        taken, known = snapshot
        begin = max(taken, begin)
        for producer in known:
            if begin > taken:  # What came between is gone, perhaps the transaction's end: its next batch will tell.
                producer.txn_first_offset = NO_OFFSET
            producers.put(producer)
    for segment in log.segments.pieces(begin, end_offset) if begin < end_offset else ():
        try:
            yield from _take_in(producers, segment, begin, end_offset)
        except DamagedBatch as damage:
            _log.warning("%s: %s; producers after it are not known", segment.path, damage)


def _take_in(
    producers: ProducerStates, segment: Segment, begin: int, end_offset: int
) -> Iterator[CompletedTransaction]:
    place = segment.find(begin)
    if place is None:
        return
    reader = segment.reader()
    for position, header in headers(reader, place.position, segment.size, STRIDE_BYTES):
        if header.base_offset >= end_offset:
            return
        if header.producer_id >= 0:
            batch = reader.read(position, header.size) if header.is_control else b""
            ended = producers.take_in(header, batch, 0, header.base_offset, header.max_timestamp)
            if ended is not None:
                yield ended
