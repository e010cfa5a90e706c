"""Which segments have had their time.  Pure: facts in, a count out."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from millstream.config.topic import TopicConfig

UNLIMITED = -1


class SegmentFacts(NamedTuple):
    """What retention asks of a segment; ``newest_ms`` is its greatest timestamp, or the file's age without one."""

    end_offset: int
    size: int
    newest_ms: int


def expired_count(
    segments: Sequence[SegmentFacts], config: TopicConfig, now_ms: int, start_offset: int, upper: int
) -> int:
    """How many of the oldest segments go: by the log's start, and by age and size where the policy is to delete.

    None that holds offsets at or above ``upper``, and never an empty active one.  All of them can go: the caller
    then begins a new segment first.
    """
    deletable = 0
    for at, segment in enumerate(segments):
        is_empty_active = at == len(segments) - 1 and segment.size == 0
        if segment.end_offset > upper or is_empty_active:
            break
        deletable += 1
    count = _past(deletable, lambda at: segments[at].end_offset <= start_offset and at < len(segments) - 1)
    if not config.cleanup_delete:
        return count
    if config.retention_ms > UNLIMITED:
        count = max(count, _past(deletable, lambda at: now_ms - segments[at].newest_ms > config.retention_ms))
    if config.retention_bytes > UNLIMITED:
        surplus = sum(segment.size for segment in segments[count:]) - config.retention_bytes
        while count < deletable and surplus >= segments[count].size:
            surplus -= segments[count].size
            count += 1
    return count


def _past(limit: int, holds: Callable[[int], bool]) -> int:
    """How many of the first ``limit`` hold, up to the first that does not."""
    return next((at for at in range(limit) if not holds(at)), limit)
