"""Where reading begins and ends: rpk's offset syntax.

start  end            the first record; what comes next
1000   +5   -5        an offset; 5 after the start; 5 before the end
1000:  :2000          from an offset on; until (not including) an offset
1000:2000  :end       between two offsets; until what is the end now
@-1h   @2026-01-31    from a time on: a duration ago, a date, a date and time, or milliseconds since the epoch
@T1:T2  @:T2          between two times; T2 may be a duration after T1, or ``end``
"""

from enum import Enum
from typing import NamedTuple

from millstream.cli.times import parse_duration_ms, parse_moment_ms


class Base(Enum):
    """What a position's number counts from."""

    OFFSET = "offset"
    START = "start"
    END = "end"
    MOMENT = "moment"


class Position(NamedTuple):
    """A place in every partition: ``number`` from ``base`` (milliseconds for a moment)."""

    base: Base
    number: int = 0


class Range(NamedTuple):
    """What to read: from ``start`` on, until ``stop`` (not included), for ever when that is None."""

    start: Position
    stop: Position | None = None


START = Position(Base.START)
END = Position(Base.END)


def parse_range(text: str, now_ms: int) -> Range:
    """The range that ``text`` names; ValueError says how to write one."""
    if text.startswith("@"):
        return _moments(text[1:], now_ms)
    first, colon, second = text.partition(":")
    if not colon:
        return Range(_position(text))
    start = _position(first) if first else START
    stop = _position(second) if second else None
    if stop is not None and stop.base is Base.OFFSET is start.base and stop.number < start.number:
        raise ValueError(f"{text!r} ends before it starts")
    return Range(start, stop)


def _position(text: str) -> Position:
    if text in ("start", "beginning", "earliest"):
        return START
    if text in ("end", "latest"):
        return END
    if text[1:].isascii() and text[1:].isdigit():
        if text[0] == "+":
            return Position(Base.START, int(text[1:]))
        if text[0] == "-":
            return Position(Base.END, -int(text[1:]))
    if text.isascii() and text.isdigit():
        return Position(Base.OFFSET, int(text))
    raise ValueError(f"{text!r} is not an offset; write start, end, 1000, +5, -5, 10:20, @-1h or @2026-01-31T12:00:00Z")


def _moments(text: str, now_ms: int) -> Range:
    """Times hold colons themselves, so the text is split at whichever colon leaves a time on both sides."""
    try:
        return Range(Position(Base.MOMENT, parse_moment_ms(text, now_ms)))
    except ValueError as error:
        fault = error
    for at in (index for index, letter in enumerate(text) if letter == ":"):
        try:
            return _between(text[:at], text[at + 1 :], now_ms)
        except ValueError:
            continue
    raise fault


def _between(first: str, second: str, now_ms: int) -> Range:
    start = Position(Base.MOMENT, parse_moment_ms(first, now_ms)) if first else START
    if not second:
        return Range(start)
    if second == "end":
        return Range(start, END)
    if first and not second.startswith("-"):
        try:
            return Range(start, Position(Base.MOMENT, start.number + parse_duration_ms(second)))
        except ValueError:
            pass  # Not a duration after the start, then a time of its own.
    return Range(start, Position(Base.MOMENT, parse_moment_ms(second, now_ms)))
