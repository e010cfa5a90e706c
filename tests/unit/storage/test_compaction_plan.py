"""What is dirty, how much, and who comes first."""

from dataclasses import replace

from millstream.config.broker import BrokerConfig
from millstream.config.topic import TopicConfig
from millstream.storage.compaction_plan import Dirt, SegmentSpan, dirt_of, dirtiest, group_segments

CONFIG = TopicConfig.resolve(BrokerConfig.load(), {"cleanup.policy": "compact"})
NOW = 1_000_000
#: Bases 0, 10, 20, 30; the last is the active one.
SEGMENTS = [SegmentSpan(base, 100, NOW - 1_000 + base, NOW - 1_005 + base) for base in (0, 10, 20, 30)]


def dirt(config: TopicConfig = CONFIG, checkpoint: int | None = None, start: int = 0, stable: int = 40) -> Dirt:
    return dirt_of(
        SEGMENTS,
        config,
        checkpoint=checkpoint,
        start_offset=start,
        end_offset=40,
        stable_offset=stable,
        now_ms=NOW,
    )


def test_without_a_checkpoint_all_but_the_active_segment_is_dirty() -> None:
    assert dirt() == Dirt(0, 30, clean_bytes=0, dirty_bytes=300, is_overdue=False)


def test_what_was_compacted_is_clean() -> None:
    found = dirt(checkpoint=20)
    assert (found.clean_bytes, found.dirty_bytes, found.first_dirty_offset) == (200, 100, 20)
    assert found.ratio == 100 / 300


def test_a_fully_compacted_log_has_no_dirt() -> None:
    found = dirt(checkpoint=30)
    assert (found.dirty_bytes, found.ratio) == (0, 0.0)
    assert not found.is_due(replace(CONFIG, min_cleanable_dirty_ratio=0.0))


def test_a_checkpoint_outside_the_log_counts_for_nothing() -> None:
    assert dirt(checkpoint=41).first_dirty_offset == 0
    assert dirt(checkpoint=5, start=12).first_dirty_offset == 12


def test_only_whole_segments_below_the_stable_offset_are_compacted() -> None:
    assert dirt(stable=29).first_uncleanable_offset == 20
    assert dirt(stable=20).first_uncleanable_offset == 20
    assert dirt(stable=9) == Dirt(0, 0, 0, 0, is_overdue=False)


def test_young_segments_wait_for_their_lag() -> None:
    config = replace(CONFIG, min_compaction_lag_ms=985)
    found = dirt(config)  # Segment 20 is 980 ms old.
    assert found.first_uncleanable_offset == 20
    assert dirt(replace(CONFIG, min_compaction_lag_ms=1_001)).dirty_bytes == 0


def test_a_young_segment_that_is_clean_already_holds_nothing_up() -> None:
    assert dirt(replace(CONFIG, min_compaction_lag_ms=985), checkpoint=30).first_uncleanable_offset == 30


def test_a_log_is_due_by_its_ratio_or_when_a_record_has_waited_too_long() -> None:
    half = Dirt(10, 20, clean_bytes=100, dirty_bytes=100, is_overdue=False)
    assert not half.is_due(replace(CONFIG, min_cleanable_dirty_ratio=0.5))
    assert half.is_due(replace(CONFIG, min_cleanable_dirty_ratio=0.49))
    assert dirt(replace(CONFIG, max_compaction_lag_ms=1_000), checkpoint=0).is_overdue
    assert not dirt(replace(CONFIG, max_compaction_lag_ms=1_000), checkpoint=20).is_overdue
    assert half._replace(is_overdue=True).is_due(replace(CONFIG, min_cleanable_dirty_ratio=0.9))


def test_the_dirtiest_comes_first_and_nobody_when_none_is_due() -> None:
    logs = [
        ("a", Dirt(0, 1, 50, 50, is_overdue=False), CONFIG),
        ("b", Dirt(0, 1, 10, 90, is_overdue=False), CONFIG),
        ("c", Dirt(0, 1, 20, 80, is_overdue=False), CONFIG),
    ]
    assert dirtiest(logs) == "b"
    assert dirtiest(logs[:1]) is None
    assert dirtiest([("x", Dirt(0, 1, 99, 1, is_overdue=True), CONFIG)]) == "x"


def sizes_of_groups(spans: list[SegmentSpan], end_offset: int) -> list[list[int]]:
    groups = group_segments(
        spans, end_offset=end_offset, segment_bytes=100, index_bytes_max=1 << 20, index_interval_bytes=4096
    )
    return [[span.size_bytes for span in group] for group in groups]


def test_neighbours_are_joined_up_to_the_size_of_a_segment() -> None:
    sizes = (40, 40, 40, 100, 1, 0, 99, 400)
    spans = [SegmentSpan(at * 10, size, -1, -1) for at, size in enumerate(sizes)]
    assert sizes_of_groups(spans, 80) == [[40, 40], [40], [100], [1, 0, 99], [400]]


def test_offsets_too_far_apart_for_31_bits_are_not_joined() -> None:
    spans = [SegmentSpan(0, 1, -1, -1), SegmentSpan(10, 1, -1, -1)]
    assert sizes_of_groups(spans, (1 << 31) - 1) == [[1, 1]]
    assert sizes_of_groups(spans, 1 << 31) == [[1], [1]]
