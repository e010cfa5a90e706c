"""Who is fetched in which lane, and how a copy leaves room for others."""

import pytest

from millstream.replication.following.lanes import HURRIED_PIECE_BYTES, PIECE_BYTES, REST_S, Lane, Pace, lane_of


@pytest.mark.parametrize(
    ("end_offset", "watermark", "lane"),
    [
        (10, 10, Lane.KEEPING_UP),
        (11, 10, Lane.KEEPING_UP),
        (9, 10, Lane.CATCHING_UP),
    ],
)
def test_only_a_log_that_ends_before_the_watermark_catches_up(end_offset: int, watermark: int, lane: Lane) -> None:
    assert lane_of(end_offset, watermark) is lane


def test_a_copy_goes_to_the_disk_piece_by_piece() -> None:
    pace = Pace()
    assert not pace.took(PIECE_BYTES - 1)
    assert pace.took(1)
    pace.flushed(lag=500)
    assert not pace.took(PIECE_BYTES - 1)


def test_a_copy_does_not_rest_while_its_leader_runs_away_from_it() -> None:
    pace = Pace()
    assert pace.rest_s == REST_S
    pace.flushed(lag=500)
    assert pace.rest_s == REST_S
    pace.flushed(lag=500)
    assert pace.rest_s == 0
    pace.flushed(lag=499)
    assert pace.rest_s == REST_S


def test_a_copy_in_a_hurry_goes_to_the_disk_in_larger_pieces() -> None:
    pace = Pace()
    pace.flushed(lag=500)
    pace.flushed(lag=500)
    assert not pace.took(HURRIED_PIECE_BYTES - 1)
    assert pace.took(1)


def test_a_copy_that_disturbs_nobody_does_not_rest() -> None:
    pace = Pace()
    pace.has_company = False
    assert pace.rest_s == 0
    assert not pace.took(HURRIED_PIECE_BYTES - 1)
    pace.flushed(lag=500)
    pace.has_company = True
    assert pace.rest_s == REST_S
