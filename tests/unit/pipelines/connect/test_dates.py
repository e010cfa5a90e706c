"""Dates by the patterns of java.text.SimpleDateFormat."""

import pytest

from millstream.pipelines.connect.dates import DateFormat, is_date_format

MOMENT_MS = 1_709_211_907_089  # 2024-02-29T13:05:07.089Z


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd'T'HH:mm:ss.SSSX", "2024-02-29T13:05:07.089Z"),
        ("EEE, d MMM yy h:mm a z", "Thu, 29 Feb 24 1:05 PM UTC"),
        ("EEEE 'o''clock' K", "Thursday o'clock 1"),
        ("YYYY 'W'ww u D", "2024 W09 4 60"),
    ],
)
def test_moments_are_written(pattern: str, text: str) -> None:
    assert DateFormat(pattern).format(MOMENT_MS) == text


@pytest.mark.parametrize(
    ("pattern", "text", "timestamp_ms"),
    [
        ("yyyy-MM-dd", "2024-02-29", 1_709_164_800_000),
        ("yyyyMMddHHmmss", "20240229130507", 1_709_211_907_000),
        ("yyyy-MM-dd HH:mm:ss Z", "2024-02-29 14:05:07 +0100", 1_709_211_907_000),
        ("yyyy-MM-dd", "2024-14-01", 1_738_368_000_000),
        ("yyyy-MM-dd", "2024-02-29 and more", 1_709_164_800_000),
        ("d MMMM yy", "29 february 24", 1_709_164_800_000),
        ("h a", "12 am", 0),
    ],
)
def test_texts_are_read(pattern: str, text: str, timestamp_ms: int) -> None:
    assert DateFormat(pattern).parse(text) == timestamp_ms


@pytest.mark.parametrize(
    ("pattern", "text"), [("yyyy-MM-dd", "29.2.2024"), ("HH", ""), ("yyyy", "99999"), ("YYYY", "2024"), ("MMM", "Foo")]
)
def test_texts_that_do_not_fit_are_refused(pattern: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"does not match pattern|is no date|out of range"):
        DateFormat(pattern).parse(text)


def test_patterns_that_are_none() -> None:
    assert [is_date_format(pattern) for pattern in ("yyyy", "bb", "'open", "XXXX", "")] == [
        True,
        False,
        False,
        False,
        True,
    ]
