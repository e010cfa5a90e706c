"""What a reader of committed records must be told: which transactions in what it is given were aborted."""

from bisect import bisect_right
from typing import TYPE_CHECKING

from millstream.model.slices import FileSlice
from millstream.storage.aborted_index import AbortedTransaction
from millstream.storage.replay import aborted_of
from millstream.storage.segment import Segment

if TYPE_CHECKING:
    from millstream.storage.log import Log


def aborted_within(log: "Log", piece: FileSlice, offset: int, upper: int) -> list[AbortedTransaction]:
    """The aborted transactions of which a record may lie in ``piece``, which ``log.read`` gave for these bounds.

    A transaction stands in the segment of its marker, which may lie behind ``piece``.  The search goes on until an
    entry says that everything from there on began later.
    """
    try:
        return _aborted_within(log, log.segments.with_aborted, piece, offset, upper)
    except OSError as error:
        raise log.directory.fail(error) from error


def _aborted_within(
    log: "Log", segments: list[Segment], piece: FileSlice, offset: int, upper: int
) -> list[AbortedTransaction]:
    newest = aborted_of(log, segments[-1])
    if newest and newest[-1].last_offset < offset:
        return []
    upper = min(upper, _end_of(log, piece, offset))
    found: list[AbortedTransaction] = []
    at = max(bisect_right(segments, offset, key=_base_offset) - 1, 0)
    for segment in segments[at:]:
        index = aborted_of(log, segment)
        if index:
            found += index.overlapping(offset, upper)
            if index[-1].last_stable_offset >= upper:
                break
    return found


def _base_offset(segment: Segment) -> int:
    return segment.base_offset


def _end_of(log: "Log", piece: FileSlice, offset: int) -> int:
    """An offset that no batch of ``piece`` reaches, as near as the segment's index tells."""
    end = piece.position + piece.length
    at = max(bisect_right(log.segments.bases, offset) - 1, 0)
    while piece.file is not log.segments[at].reader() and at + 1 < len(log.segments):
        at += 1
    segment = log.segments[at]
    if end < segment.size:
        rank = segment.offsets.rank(end, by_value=True)
        if rank < len(segment.offsets):
            return segment.base_offset + segment.offsets[rank][0]
    return log.segments.end_of(at, log.end_offset)
