"""Which log compaction takes next, and which part of it: decisions only, in Kafka's terms.

    | clean: compacted before | dirty: to be compacted | not to be touched yet |
    start             first dirty            first uncleanable              end

Only whole segments are compacted, never the active one, nothing above the high watermark or inside an open
transaction, and nothing younger than ``min.compaction.lag.ms``.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from millstream.config.topic import TopicConfig

#: Offsets in the indexes are relative to the segment's first, in 31 bits.
RELATIVE_OFFSET_MAX = (1 << 31) - 1
#: The time index has the larger entries.
TIME_ENTRY_BYTES = 12

Key = TypeVar("Key")


class SegmentSpan(NamedTuple):
    """What the plan needs to know of a segment."""

    base_offset: int
    size_bytes: int
    max_timestamp: int
    #: Of the first batch; may be -1 when ``max.compaction.lag.ms`` is not set.
    first_timestamp: int


class Dirt(NamedTuple):
    """How dirty a log is: offsets bound the part that can be compacted now."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    dirty_bytes: int
    #: Some record has waited for longer than ``max.compaction.lag.ms``.
    is_overdue: bool

    @property
    def ratio(self) -> float:
        total = self.clean_bytes + self.dirty_bytes
        return self.dirty_bytes / total if total else 0.0

    def is_due(self, config: TopicConfig) -> bool:
        """Whether compacting is worth it now."""
        return self.dirty_bytes > 0 and (self.is_overdue or self.ratio > config.min_cleanable_dirty_ratio)


def dirt_of(
    segments: Sequence[SegmentSpan],
    config: TopicConfig,
    *,
    checkpoint: int | None,
    start_offset: int,
    end_offset: int,
    stable_offset: int,
    now_ms: int,
) -> Dirt:
    """Look at a log whose last segment is the active one.

    ``checkpoint`` is where the last compaction stopped, ``stable_offset`` the lesser of high watermark and last stable
    offset. A checkpoint outside the log is of another life of it, and everything counts as dirty.
    """
    first_dirty = start_offset if checkpoint is None or checkpoint > end_offset else max(checkpoint, start_offset)
    closed = segments[:-1]
    bound = min(stable_offset, segments[-1].base_offset)
    if config.min_compaction_lag_ms > 0:
        young_from_ms = now_ms - config.min_compaction_lag_ms
        for segment, following in zip(closed, segments[1:], strict=True):
            if following.base_offset > first_dirty and segment.max_timestamp > young_from_ms:
                bound = min(bound, segment.base_offset)
                break
    # Whole segments only: the one that holds the bound stays as it is.
    first_uncleanable = max((each.base_offset for each in segments if each.base_offset <= bound), default=first_dirty)
    ends = [each.base_offset for each in segments[1:]]
    whole = [(each, end) for each, end in zip(closed, ends, strict=True) if end <= first_uncleanable]
    dirty = [each for each, end in whole if end > first_dirty]
    return Dirt(
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=max(first_uncleanable, first_dirty),
        clean_bytes=sum(each.size_bytes for each, end in whole if end <= first_dirty),
        dirty_bytes=sum(each.size_bytes for each in dirty),
        is_overdue=any(0 <= each.first_timestamp < now_ms - config.max_compaction_lag_ms for each in dirty),
    )


def dirtiest(logs: Iterable[tuple[Key, Dirt, TopicConfig]]) -> Key | None:
    """The log to compact next, None when none is worth it."""
    due = [(dirt.ratio, key) for key, dirt, config in logs if dirt.is_due(config)]
    return max(due, key=lambda each: each[0])[1] if due else None


def group_segments(
    segments: Sequence[SegmentSpan],
    *,
    end_offset: int,
    segment_bytes: int,
    index_bytes_max: int,
    index_interval_bytes: int,
) -> list[list[SegmentSpan]]:
    """Neighbours that together fit one segment become one, so that compaction does not leave a trail of small ones.

    ``end_offset`` is where the last of them ends.
    """
    groups: list[list[SegmentSpan]] = []
    size = 0
    index_covers_bytes = max(1, index_bytes_max // TIME_ENTRY_BYTES) * max(1, index_interval_bytes)
    ends = [segment.base_offset for segment in segments[1:]] + [end_offset]
    for segment, end in zip(segments, ends, strict=True):
        joins = (
            groups
            and size + segment.size_bytes <= min(segment_bytes, index_covers_bytes)
            and end - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX
        )
        if joins:
            groups[-1].append(segment)
            size += segment.size_bytes
        else:
            groups.append([segment])
            size = segment.size_bytes
    return groups
