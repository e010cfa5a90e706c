"""rpk's offset syntax."""

import pytest

from millstream.cli.positions import END, START, Base, Position, Range, parse_range

NOW_MS = 1_769_860_800_000  # 2026-01-31T12:00:00Z
HOUR_MS = 3_600_000


def offset(number: int) -> Position:
    return Position(Base.OFFSET, number)


def moment(moment_ms: int) -> Position:
    return Position(Base.MOMENT, moment_ms)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("start", Range(START)),
        ("end", Range(END)),
        ("17", Range(offset(17))),
        ("+5", Range(Position(Base.START, 5))),
        ("-5", Range(Position(Base.END, -5))),
        ("17:", Range(offset(17))),
        (":20", Range(START, offset(20))),
        (":end", Range(START, END)),
        ("17:20", Range(offset(17), offset(20))),
        ("-5:end", Range(Position(Base.END, -5), END)),
        ("+1:+3", Range(Position(Base.START, 1), Position(Base.START, 3))),
        ("@-1h", Range(moment(NOW_MS - HOUR_MS))),
        ("@-1h:", Range(moment(NOW_MS - HOUR_MS))),
        ("@-2h:-1h", Range(moment(NOW_MS - 2 * HOUR_MS), moment(NOW_MS - HOUR_MS))),
        ("@-2h:30m", Range(moment(NOW_MS - 2 * HOUR_MS), moment(NOW_MS - 2 * HOUR_MS + 1_800_000))),
        ("@-2h:end", Range(moment(NOW_MS - 2 * HOUR_MS), END)),
        ("@:-1h", Range(START, moment(NOW_MS - HOUR_MS))),
        ("@1769860800000", Range(moment(NOW_MS))),
        ("@2026-01-31T12:00:00Z", Range(moment(NOW_MS))),
        ("@2026-01-31T11:00:00Z:2026-01-31T12:00:00Z", Range(moment(NOW_MS - HOUR_MS), moment(NOW_MS))),
        ("@2026-01-31:2026-02-01", Range(moment(NOW_MS - 12 * HOUR_MS), moment(NOW_MS + 12 * HOUR_MS))),
        ("@2026-01-31T11:00:00Z:1h", Range(moment(NOW_MS - HOUR_MS), moment(NOW_MS))),
    ],
)
def test_a_range_is_read(text: str, expected: Range) -> None:
    assert parse_range(text, NOW_MS) == expected


@pytest.mark.parametrize("text", ["", "x", "+", "-", "1.5", "+-1", "1:2:3", "end:x", "@", "@x", "@-1h:x", "²"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a"):
        parse_range(text, NOW_MS)


def test_a_range_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(ValueError, match="ends before it starts"):
        parse_range("20:10", NOW_MS)
