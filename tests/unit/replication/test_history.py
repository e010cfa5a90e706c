"""How fast old records are read while others wait."""

import pytest

from millstream.replication.history import BYTES_PER_S, HistoryReader

STRETCH_BYTES = 1 << 20
#: How long a stretch is, at the pace that is kept.
STRETCH_S = STRETCH_BYTES / BYTES_PER_S
RECORDS = 1_000
END = 1_000_000


def a_reader() -> HistoryReader:
    """One that has read its first stretch, of a log that ends at ``END``."""
    reader = HistoryReader()
    reader.rest_s(STRETCH_BYTES, 0, END, now_s=0.0, is_alone=False)
    return reader


def test_the_first_stretch_is_given_at_once() -> None:
    assert HistoryReader().rest_s(STRETCH_BYTES, 5 * RECORDS, END, now_s=100.0, is_alone=False) == 0


def test_whoever_reads_on_at_once_is_kept_at_the_pace() -> None:
    reader, now_s = a_reader(), 0.0
    for number in range(1, 11):
        now_s += reader.rest_s(STRETCH_BYTES, number * RECORDS, END, now_s, is_alone=False)
        assert now_s == pytest.approx(number * STRETCH_S)


def test_whoever_is_slower_never_rests() -> None:
    reader = a_reader()
    for number in range(1, 11):
        assert reader.rest_s(STRETCH_BYTES, number * RECORDS, END, now_s=number * 1.1 * STRETCH_S, is_alone=False) == 0


def test_what_was_not_read_while_it_could_be_is_not_made_up_for() -> None:
    reader = a_reader()
    assert reader.rest_s(STRETCH_BYTES, RECORDS, END, now_s=60.0, is_alone=False) == 0
    assert reader.rest_s(STRETCH_BYTES, 2 * RECORDS, END, now_s=60.0, is_alone=False) == pytest.approx(STRETCH_S)


def test_nobody_rests_whose_log_grows_too_fast_for_it() -> None:
    reader, end = a_reader(), END
    for number in range(1, 11):
        end += RECORDS * 2 // 3
        assert reader.rest_s(STRETCH_BYTES, number * RECORDS, end, now_s=0.0, is_alone=False) == 0


def test_a_log_that_grows_slowly_does_not_hurry_its_reader() -> None:
    reader, end, now_s = a_reader(), END, 0.0
    for number in range(1, 11):
        end += RECORDS // 3
        now_s += reader.rest_s(STRETCH_BYTES, number * RECORDS, end, now_s, is_alone=False)
    assert now_s == pytest.approx(10 * STRETCH_S)


def test_what_was_read_alone_is_not_made_up_for_when_somebody_comes() -> None:
    reader = a_reader()
    for number in range(1, 1_001):
        assert reader.rest_s(STRETCH_BYTES, number * RECORDS, END, now_s=0.0, is_alone=True) == 0
    rest_s = reader.rest_s(STRETCH_BYTES, 1_001 * RECORDS, END, now_s=0.0, is_alone=False)
    assert rest_s == pytest.approx(STRETCH_S)
