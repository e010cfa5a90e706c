"""Dates written and read by the patterns of ``java.text.SimpleDateFormat``, in UTC and in English.

Reading is as lenient as Java's: what is behind the pattern's end is passed over, and a 13th month is January.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from millstream.pipelines.connect.logical import timestamp_of

_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: A year of two digits lies in the hundred years from here.
_CENTURY_START = 1946
_TOKEN = re.compile(r"''|'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+", re.DOTALL)


def _named(names: list[str], place: int, count: int) -> str:
    return names[place] if count >= 4 else names[place][:3]


def _saturday(moment: datetime) -> datetime:
    """The last day of a week, which begins on Sunday."""
    return moment + timedelta(days=(5 - moment.weekday()) % 7)


#: letter -> what is written for it, given how often the letter stands there.  A number is filled up with zeros.
_WRITERS: Mapping[str, Callable[[datetime, int], int | str]] = {
    "G": lambda moment, count: "AD",
    "y": lambda moment, count: f"{moment.year % 100:02}" if count == 2 else moment.year,
    "Y": lambda moment, count: f"{_saturday(moment).year % 100:02}" if count == 2 else _saturday(moment).year,
    "M": lambda moment, count: moment.month if count < 3 else _named(_MONTHS, moment.month - 1, count),
    "L": lambda moment, count: moment.month if count < 3 else _named(_MONTHS, moment.month - 1, count),
    "w": lambda moment, count: (_saturday(moment).timetuple().tm_yday - 1) // 7 + 1,
    "W": lambda moment, count: (moment.day + (moment.replace(day=1).weekday() + 1) % 7 - 1) // 7 + 1,
    "D": lambda moment, count: moment.timetuple().tm_yday,
    "d": lambda moment, count: moment.day,
    "F": lambda moment, count: (moment.day - 1) // 7 + 1,
    "E": lambda moment, count: _named(_DAYS, moment.weekday(), count),
    "u": lambda moment, count: moment.isoweekday(),
    "a": lambda moment, count: "AM" if moment.hour < 12 else "PM",
    "H": lambda moment, count: moment.hour,
    "k": lambda moment, count: moment.hour or 24,
    "K": lambda moment, count: moment.hour % 12,
    "h": lambda moment, count: moment.hour % 12 or 12,
    "m": lambda moment, count: moment.minute,
    "s": lambda moment, count: moment.second,
    "S": lambda moment, count: moment.microsecond // 1000,
    "z": lambda moment, count: "UTC" if count < 4 else "Coordinated Universal Time",
    "Z": lambda moment, count: "+0000",
    "X": lambda moment, count: "Z",
}


@dataclass(slots=True)
class _Parts:
    """What was read of a date so far."""

    year: int = 1970
    month: int = 1
    day: int = 1
    hour: int = 0
    minute: int = 0
    second: int = 0
    millisecond: int = 0
    zone_s: int = 0
    is_afternoon: bool | None = None
    day_of_year: int | None = None

    def moment(self) -> datetime:
        """Parts that are too large or too small run over into the next."""
        months = self.month - 1 if self.day_of_year is None else 0
        day = self.day if self.day_of_year is None else self.day_of_year
        start = datetime(self.year + months // 12, months % 12 + 1, 1, tzinfo=UTC)
        hour = self.hour
        if self.is_afternoon is not None:
            hour = hour % 12 + 12 * self.is_afternoon
        return start + timedelta(
            days=day - 1,
            hours=hour,
            minutes=self.minute,
            seconds=self.second - self.zone_s,
            milliseconds=self.millisecond,
        )


def _year(parts: _Parts, text: str, count: int) -> None:
    parts.year = int(text)
    if count <= 2 and re.fullmatch(r"\d\d", text):
        parts.year += _CENTURY_START // 100 * 100
        if parts.year < _CENTURY_START:
            parts.year += 100


def _month(parts: _Parts, text: str, count: int) -> None:
    if text.lstrip("-").isdigit():
        parts.month = int(text)
    else:
        parts.month = [name[:3].lower() for name in _MONTHS].index(text[:3].lower()) + 1


def _zone(parts: _Parts, text: str, count: int) -> None:
    found = re.search(r"([+-])(\d\d?):?(\d\d)?$", text)
    if found:
        seconds = int(found[2]) * 3600 + int(found[3] or 0) * 60
        parts.zone_s = seconds if found[1] == "+" else -seconds


def _set(name: str, from_zero: int = 0) -> Callable[[_Parts, str, int], None]:
    def put(parts: _Parts, text: str, count: int) -> None:
        number = int(text)
        setattr(parts, name, 0 if number == from_zero and from_zero else number)

    return put


def _half(parts: _Parts, text: str, count: int) -> None:
    parts.is_afternoon = text.lower() == "pm"


def _pass(parts: _Parts, text: str, count: int) -> None:
    """A part that says nothing new."""


_NUMBER = r"\s*-?\d+"
_NAMES_OF_MONTHS = "|".join([*_MONTHS, *(name[:3] for name in _MONTHS)])
_NAMES_OF_DAYS = "|".join([*_DAYS, *(name[:3] for name in _DAYS)])
_OFFSET = r"(?:GMT|UTC)?[+-]\d\d?:?\d\d|UTC|GMT|Z"
#: letter -> what it looks like (None: a number), and what is made of it.
_READERS: Mapping[str, tuple[str | None, Callable[[_Parts, str, int], None]]] = {
    "G": ("AD", _pass),
    "y": (None, _year),
    "M": (None, _month),
    "L": (None, _month),
    "D": (None, _set("day_of_year")),
    "d": (None, _set("day")),
    "E": (_NAMES_OF_DAYS, _pass),
    "u": (None, _pass),
    "a": ("AM|PM", _half),
    "H": (None, _set("hour")),
    "k": (None, _set("hour", from_zero=24)),
    "K": (None, _set("hour")),
    "h": (None, _set("hour", from_zero=12)),
    "m": (None, _set("minute")),
    "s": (None, _set("second")),
    "S": (None, _set("millisecond")),
    "z": (_OFFSET, _zone),
    "Z": (_OFFSET, _zone),
    "X": (rf"{_OFFSET}|[+-]\d\d", _zone),
}


@dataclass(frozen=True, slots=True)
class _Token:
    """A letter of the pattern and how often it stands there, or a text."""

    letter: str
    count: int
    text: str = ""


@dataclass(slots=True)
class DateFormat:
    """A pattern; ValueError when it is none."""

    pattern: str
    _tokens: list[_Token] = field(init=False)
    _regex: re.Pattern[str] | None = field(init=False)

    def __post_init__(self) -> None:
        self._tokens = _tokens(self.pattern)
        self._regex = _regex(self._tokens)

    def format(self, timestamp_ms: int) -> str:
        """A moment as text."""
        moment = timestamp_of(timestamp_ms)
        written = []
        for token in self._tokens:
            if not token.letter:
                written.append(token.text)
                continue
            found = _WRITERS[token.letter](moment, token.count)
            written.append(found if isinstance(found, str) else str(found).rjust(token.count, "0"))
        return "".join(written)

    def parse(self, text: str) -> int:
        """The moment of a text in ms since the epoch; ValueError when it does not fit the pattern."""
        match = self._regex.match(text) if self._regex is not None else None
        if match is None:
            raise ValueError(f"value ({text}) does not match pattern ({self.pattern})")
        parts = _Parts()
        for place, token in enumerate(self._tokens):
            if token.letter:
                _READERS[token.letter][1](parts, match[f"t{place}"].strip(), token.count)
        try:
            return (parts.moment() - _EPOCH) // _MILLISECOND
        except OverflowError as error:
            raise ValueError(f"value ({text}) is no date: {error}") from error


def is_date_format(pattern: str) -> bool:
    """Whether it is one."""
    try:
        DateFormat(pattern)
    except ValueError:
        return False
    return True


def _tokens(pattern: str) -> list[_Token]:
    tokens = []
    place = 0
    while place < len(pattern):
        found = _TOKEN.match(pattern, place)
        if found is None:
            raise ValueError("Unterminated quote")
        letter = found[2] or ""
        if letter and letter not in _WRITERS:
            raise ValueError(f"Illegal pattern character '{letter}'")
        if letter == "X" and len(found[0]) > 3:
            raise ValueError(f"invalid ISO 8601 format: length={len(found[0])}")
        text = "'" if found[0] == "''" else (found[1] if found[1] is not None else found[0]).replace("''", "'")
        tokens.append(_Token(letter, len(found[0]), text))
        place = found.end()
    return tokens


def _regex(tokens: list[_Token]) -> re.Pattern[str] | None:
    """What a text must look like; None where the pattern is only for writing."""
    parts = []
    for place, token in enumerate(tokens):
        if not token.letter:
            parts.append(re.escape(token.text))
            continue
        if token.letter not in _READERS:
            return None
        looks = _READERS[token.letter][0]
        if token.letter in "ML" and token.count >= 3:
            looks = _NAMES_OF_MONTHS
        if looks is None:
            # Numbers that touch are told apart by their width.
            touched = place + 1 < len(tokens) and tokens[place + 1].letter in _READERS
            touched = touched and _is_number(tokens[place + 1])
            looks = rf"\d{{{token.count}}}" if touched else _NUMBER
        parts.append(f"(?P<t{place}>{looks})")
    return re.compile("".join(parts), re.IGNORECASE | re.ASCII)


def _is_number(token: _Token) -> bool:
    return _READERS[token.letter][0] is None and not (token.letter in "ML" and token.count >= 3)
