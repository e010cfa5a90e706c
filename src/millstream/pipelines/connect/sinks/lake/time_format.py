"""Times as folders: the letters that Confluent's ``path.format`` is made of, as Joda-Time reads them."""

import datetime
import re
from collections.abc import Callable
from typing import NamedTuple

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
#: A run of one letter; what stands between quotes, two quotes being one; anything else, as it is.
_TOKEN = re.compile(r"([a-zA-Z])\1*|'((?:[^']|'')*)'|[^a-zA-Z']+")

Moment = datetime.datetime


class PathFormatError(ValueError):
    """A pattern that cannot be read."""


def _digits(number: Callable[[Moment], int]) -> Callable[[Moment, int], str]:
    return lambda moment, width: f"{number(moment):0{width}d}"


def _year(of: Callable[[Moment], int]) -> Callable[[Moment, int], str]:
    return lambda moment, width: f"{of(moment) % 100:02d}" if width == 2 else f"{of(moment):0{width}d}"


def _name(names: tuple[str, ...], moment_of: Callable[[Moment], int]) -> Callable[[Moment, int], str]:
    return lambda moment, width: names[moment_of(moment)][: None if width > 3 else 3]


def _month(moment: Moment, width: int) -> str:
    if width > 2:
        return _name(_MONTHS, lambda moment: moment.month - 1)(moment, width)
    return f"{moment.month:0{width}d}"


def _fraction(moment: Moment, width: int) -> str:
    return f"{moment.microsecond:06d}".ljust(width, "0")[:width]


_LETTERS: dict[str, Callable[[Moment, int], str]] = {
    "y": _year(lambda moment: moment.year),
    "Y": _year(lambda moment: moment.year),
    "x": _year(lambda moment: moment.isocalendar().year),
    "w": _digits(lambda moment: moment.isocalendar().week),
    "e": _digits(lambda moment: moment.isoweekday()),
    "E": _name(_DAYS, lambda moment: moment.weekday()),
    "M": _month,
    "d": _digits(lambda moment: moment.day),
    "D": _digits(lambda moment: moment.timetuple().tm_yday),
    "H": _digits(lambda moment: moment.hour),
    "h": _digits(lambda moment: (moment.hour - 1) % 12 + 1),
    "a": lambda moment, _: "AM" if moment.hour < 12 else "PM",
    "m": _digits(lambda moment: moment.minute),
    "s": _digits(lambda moment: moment.second),
    "S": _fraction,
}


class _Token(NamedTuple):
    """Text as it stands, or a letter and how often it is repeated."""

    text: str
    letter: str = ""


class Segment:
    """One folder of a path: ``name=value`` where the pattern begins with that name, else a value alone."""

    def __init__(self, tokens: list[_Token]) -> None:
        self.name: str | None = None
        head, *rest = tokens
        name, equals, value = head.text.partition("=")
        if not equals and not head.letter and rest and not rest[0].letter and rest[0].text.startswith("="):
            # 'year'=YYYY: the sign stands outside of the quotes.
            name, equals, value = head.text, "=", rest[0].text[1:]
            rest = rest[1:]
        if not head.letter and equals and name:
            self.name = name
            tokens = [_Token(value), *rest] if value else rest
        self._tokens = tokens

    def value(self, moment: Moment) -> str:
        """What stands for the moment."""
        return "".join(_LETTERS[letter](moment, len(text)) if letter else text for text, letter in self._tokens)


def segments(pattern: str) -> list[Segment]:
    """The folders that a pattern makes, from the outermost in."""
    found: list[list[_Token]] = [[]]
    place = 0
    while place < len(pattern):
        match = _TOKEN.match(pattern, place)
        if match is None:
            raise PathFormatError(f"a quote at character {place + 1} is not closed")
        place = match.end()
        letter, quoted = match.groups()
        if letter is not None:
            if letter not in _LETTERS:
                raise PathFormatError(f"letter {letter!r} at character {match.start() + 1} stands for nothing known")
            found[-1].append(_Token(match.group(), letter))
            continue
        text = match.group() if quoted is None else quoted.replace("''", "'") or "'"
        first, *others = text.split("/")
        found[-1].append(_Token(first))
        found.extend([_Token(part)] for part in others)
    return [Segment(tokens) for tokens in (_without_empty(tokens) for tokens in found) if tokens]


def _without_empty(tokens: list[_Token]) -> list[_Token]:
    return [token for token in tokens if token.text]
