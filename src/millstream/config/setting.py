"""What a setting is: a name as Kafka spells it, a kind of value, a default, a check and a doc.

Tables of settings (``broker``, ``log``, ``topic``) are made of these; everything else about configuration, what
DescribeConfigs answers included, is computed from the tables.
"""

import difflib
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Generic, TypeVar

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
DOUBLE_MAX = 1.7976931348623157e308

T_co = TypeVar("T_co", covariant=True)


class SettingError(ValueError):
    """A setting that cannot be taken; the message names it, the value, and what is allowed."""


@dataclass(frozen=True)
class Kind(Generic[T_co]):
    """A kind of value: its number in DescribeConfigs, how it is read from text and written back."""

    code: int
    wanted: str
    parse: Callable[[str], T_co]
    text: Callable[[Any], str] = str


def _whole_number(bits: int) -> Callable[[str], int]:
    limit = 1 << (bits - 1)
    digits = re.compile(r"[+-]?[0-9]+")

    def parse(text: str) -> int:
        if not digits.fullmatch(text) or not -limit <= (value := int(text)) < limit:
            raise ValueError
        return value

    return parse


def _fraction(text: str) -> float:
    value = float(text)
    if "_" in text or math.isnan(value):
        raise ValueError
    return value


def _truth(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",")) if text else ()


BOOLEAN = Kind(1, "true or false", _truth, lambda value: "true" if value else "false")
STRING = Kind[str](2, "text", str)
INT = Kind(3, "a whole number of at most 32 bits", _whole_number(32))
SHORT = Kind(4, "a whole number of at most 16 bits", _whole_number(16))
LONG = Kind(5, "a whole number of at most 64 bits", _whole_number(64))
DOUBLE = Kind(6, "a number", _fraction, lambda value: repr(float(value)).replace("e+", "E").replace("e", "E"))
LIST = Kind(7, "a list with commas", _names, ",".join)
PASSWORD = Kind[str](9, "text", str)


@dataclass(frozen=True, slots=True)
class Check:
    """A bound on a value beyond its kind, in words and as a test."""

    allowed: str
    holds: Callable[[Any], bool]


ANYTHING = Check("", lambda _: True)
NOT_EMPTY = Check("not empty", bool)


def at_least(least: float) -> Check:
    """Not below ``least``."""
    return Check(f"at least {least}", lambda value: value >= least)


def between(least: float, most: float) -> Check:
    """From ``least`` to ``most``, both included."""
    return Check(f"from {least} to {most}", lambda value: least <= value <= most)


def one_of(*names: str) -> Check:
    """One of a few names, spelled exactly."""
    return Check(f"one of {', '.join(names)}", names.__contains__)


def some_of(*names: str) -> Check:
    """A list with at least one entry, each one of a few names."""
    return Check(f"one or more of {', '.join(names)}", lambda value: bool(value) and set(value) <= set(names))


@dataclass(frozen=True, eq=False)
class Setting(Generic[T_co]):
    """One setting.  A default of None means: not set, ask the fallbacks.

    ``fallbacks`` are the settings that speak where this one is silent, first come first served; a fallback in a
    coarser unit says how many of ours are in one of its own (``times``).
    """

    name: str
    kind: Kind[T_co]
    _: KW_ONLY
    default: T_co
    doc: str
    check: Check = ANYTHING
    dynamic: bool = False
    fallbacks: "tuple[Fallback, ...]" = ()

    @property
    def is_sensitive(self) -> bool:
        """Whether its value must never be shown."""
        return self.kind is PASSWORD

    def parse(self, text: str, origin: str = "") -> T_co:
        """The value ``text`` stands for, or a SettingError that says what is allowed (and where the text was)."""
        text = text.strip()
        try:
            value = self.kind.parse(text)
            if self.check.holds(value):
                return value
        except (ValueError, KeyError):
            pass
        where = f" ({origin})" if origin else ""
        shown = "[hidden]" if self.is_sensitive else text
        wanted = f"{self.kind.wanted}, {self.check.allowed}" if self.check.allowed else self.kind.wanted
        raise SettingError(f"{self.name}={shown}{where}: must be {wanted}")

    def text(self, value: object) -> str:
        """The value as a client is shown it."""
        return self.kind.text(value)

    def chain(self) -> "tuple[Fallback, ...]":
        """Itself and everything it may fall back on, in order."""
        return (Fallback(self), *self.fallbacks)


@dataclass(frozen=True, slots=True)
class Fallback:
    """A setting that may speak for another, and how many of the other's units one of its own is."""

    setting: Setting[Any]
    times: int = 1

    def scaled(self, value: Any) -> Any:
        """The value in the unit of the setting it speaks for; limits such as -1 (none) stay what they are."""
        if self.times == 1 or value < 0:
            return value
        return min(value * self.times, LONG_MAX)


def table(declared: Iterable[object]) -> dict[str, Setting[Any]]:
    """The settings among the values of a module's namespace, by name in alphabetical order."""
    settings = [value for value in declared if isinstance(value, Setting)]
    by_name = {setting.name: setting for setting in sorted(settings, key=lambda setting: setting.name)}
    assert len(by_name) == len(settings), "two settings have one name"
    return by_name


def unknown(name: str, known: Iterable[str]) -> str:
    """Words for a name that is in no table, with the nearest one that is."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"unknown setting {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")
