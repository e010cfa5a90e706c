"""Which segments go: a pure decision."""

from millstream.storage.retention import SegmentFacts, expired_count
from tests.unit.storage.ground import config

#: Ten offsets, a hundred bytes and one second each.
SEGMENTS = [SegmentFacts((at + 1) * 10, 100, at * 1_000) for at in range(5)]
KEEP = config(retention_ms=-1, retention_bytes=-1)


def test_nothing_goes_without_limits() -> None:
    assert expired_count(SEGMENTS, KEEP, 10**15, 0, 50) == 0


def test_segments_go_by_their_newest_timestamp() -> None:
    by_time = config(retention_ms=1_500, retention_bytes=-1)
    assert expired_count(SEGMENTS, by_time, 3_000, 0, 50) == 2
    assert expired_count(SEGMENTS, by_time, 1_500, 0, 50) == 0


def test_a_young_segment_protects_the_ones_behind_it() -> None:
    by_time = config(retention_ms=100, retention_bytes=-1)
    mixed = [SEGMENTS[0], SegmentFacts(20, 100, 9_950), SEGMENTS[2]]
    assert expired_count(mixed, by_time, 10_000, 0, 50) == 1


def test_segments_go_while_the_rest_is_large_enough() -> None:
    assert expired_count(SEGMENTS, config(retention_ms=-1, retention_bytes=300), 0, 0, 50) == 2
    assert expired_count(SEGMENTS, config(retention_ms=-1, retention_bytes=301), 0, 0, 50) == 1
    assert expired_count(SEGMENTS, config(retention_ms=-1, retention_bytes=500), 0, 0, 50) == 0


def test_segments_before_the_log_s_start_go_whatever_the_policy() -> None:
    compacted = config(cleanup_delete=False, cleanup_compact=True, retention_ms=0, retention_bytes=0)
    assert expired_count(SEGMENTS, compacted, 10**15, 25, 50) == 2
    assert expired_count(SEGMENTS, compacted, 10**15, 50, 50) == 4, "the active one stays"


def test_nothing_at_or_above_the_high_watermark_goes() -> None:
    by_time = config(retention_ms=0, retention_bytes=-1)
    assert expired_count(SEGMENTS, by_time, 10**15, 0, 29) == 2
    assert expired_count(SEGMENTS, by_time, 10**15, 0, 30) == 3


def test_an_expired_active_segment_goes_too_unless_it_is_empty() -> None:
    by_time = config(retention_ms=0, retention_bytes=-1)
    assert expired_count(SEGMENTS, by_time, 10**15, 0, 50) == 5
    assert expired_count([*SEGMENTS, SegmentFacts(50, 0, 0)], by_time, 10**15, 0, 50) == 5
