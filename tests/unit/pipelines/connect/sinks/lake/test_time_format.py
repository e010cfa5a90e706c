"""Joda's letters, as far as folders need them."""

import datetime

import pytest

from millstream.pipelines.connect.sinks.lake.time_format import PathFormatError, segments

MOMENT = datetime.datetime(2026, 3, 5, 19, 8, 9, 123456)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH", "year=2026/month=03/day=05/hour=19"),
        ("'dt='yyyy-MM-dd'T'HH", "dt=2026-03-05T19"),
        ("YYYY/M/d", "2026/3/5"),
        ("yy/DDD/ww/e", "26/064/10/4"),
        ("MMM/MMMM/EEE/EEEE", "Mar/March/Thu/Thursday"),
        ("hh'o''clock'a/mm-ss-SSS", "07o'clockPM/08-09-123"),
        ("'a/b'=yyyy/", "a/b=2026"),
        ("xxxx", "2026"),
    ],
)
def test_a_pattern_makes_these_folders(pattern: str, expected: str) -> None:
    found = segments(pattern)
    texts = [part.value(MOMENT) if part.name is None else f"{part.name}={part.value(MOMENT)}" for part in found]
    assert "/".join(texts) == expected


@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [("yyyy'", "a quote at character 5 is not closed"), ("yyyy/QQ", "letter 'Q' at character 6 stands for nothing")],
)
def test_what_is_no_pattern_is_refused_at_its_place(pattern: str, complaint: str) -> None:
    with pytest.raises(PathFormatError, match=complaint):
        segments(pattern)
