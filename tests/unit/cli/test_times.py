"""Moments and durations as people write them."""

import pytest

from millstream.cli.times import duration_text, moment_text, parse_duration_ms, parse_moment_ms

NOW_MS = 1_769_860_800_000  # 2026-01-31T12:00:00Z


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("250ms", 250),
        ("90s", 90_000),
        ("15m", 900_000),
        ("1.5h", 5_400_000),
        ("7d", 604_800_000),
        ("1d12h", 129_600_000),
        ("PT1H", 3_600_000),
        ("PT1H30M", 5_400_000),
        ("P1DT12H", 129_600_000),
        ("P2W", 1_209_600_000),
        ("PT0.25S", 250),
    ],
)
def test_durations_are_read(text: str, duration_ms: int) -> None:
    assert parse_duration_ms(text) == duration_ms


@pytest.mark.parametrize("text", ["", "5", "h", "1 h", "-1h", "1y", "1h!", "P", "PT", "P1H", "P1DT"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("text", "moment_ms"),
    [
        ("1769860800123", 1_769_860_800_123),
        ("1769860800", NOW_MS),
        ("999999999", 999_999_999_000),
        ("2026-01-31", NOW_MS - 43_200_000),
        ("2026-01-31T12:00:00Z", NOW_MS),
        ("2026-01-31T12:00:00", NOW_MS),
        ("2026-01-31T13:00:00+01:00", NOW_MS),
        ("2026-01-31T12:00:00.250Z", NOW_MS + 250),
        ("-1h", NOW_MS - 3_600_000),
        ("now", NOW_MS),
    ],
)
def test_moments_are_read(text: str, moment_ms: int) -> None:
    assert parse_moment_ms(text, NOW_MS) == moment_ms


@pytest.mark.parametrize("text", ["", "yesterday", "12", "2026-13-01", "-1", "1h"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a"):
        parse_moment_ms(text, NOW_MS)


def test_a_moment_is_shown_in_utc_to_the_millisecond() -> None:
    assert moment_text(NOW_MS + 5) == "2026-01-31T12:00:00.005Z"


def test_a_moment_nobody_could_mean_is_shown_as_it_is() -> None:
    assert moment_text(-1) == "-"
    assert moment_text(1 << 62) == str(1 << 62)


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0.0s"),
        (440, "0.4s"),
        (12_300, "12s"),
        (60_000, "1m"),
        (200_000, "3m20s"),
        (18_600_000, "5h10m"),
        (183_600_000, "2d3h"),
    ],
)
def test_a_duration_is_shown_in_the_unit_that_fits(duration_ms: int, text: str) -> None:
    assert duration_text(duration_ms) == text


def test_what_was_before_1970_is_1970_as_no_record_is_older() -> None:
    assert parse_moment_ms("-99999999d", NOW_MS) == 0
    assert parse_moment_ms("1969-01-01", NOW_MS) == 0


@pytest.mark.parametrize(("text", "told"), [("-1h", "leave the minus out, as in 1h"), ("9" * 400 + "d", "longer than")])
def test_a_duration_that_cannot_be_meant_is_refused(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parse_duration_ms(text)
