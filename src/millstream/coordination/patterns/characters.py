"""Sets of characters, as the places in Unicode where they begin and end."""

from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain
from string import ascii_letters, ascii_lowercase, ascii_uppercase, digits, hexdigits, punctuation
from typing import Final
from unicodedata import category

END: Final = 0x110000

#: Where a set begins, where it is left, where it begins again, and so on; ``END`` may leave it.
Bounds = tuple[int, ...]

NOBODY: Final[Bounds] = ()
EVERYBODY: Final[Bounds] = (0, END)


def spans(*ranges: tuple[int, int]) -> Bounds:
    """The set of these ranges, which may overlap; both ends belong to a range."""
    bounds: list[int] = []
    for first, last in sorted(ranges):
        if bounds and first <= bounds[-1]:
            bounds[-1] = max(bounds[-1], last + 1)
        else:
            bounds += (first, last + 1)
    return tuple(bounds)


def ranges_of(bounds: Bounds) -> Iterable[tuple[int, int]]:
    """The ranges of a set, each with its first and its last."""
    return ((first, end - 1) for first, end in zip(bounds[::2], bounds[1::2], strict=True))


def letters(text: str) -> Bounds:
    """The set of these characters."""
    return spans(*((ord(each), ord(each)) for each in text))


def united(sets: Iterable[Bounds]) -> Bounds:
    """Whoever is in any of the sets."""
    return spans(*chain.from_iterable(map(ranges_of, sets)))


def others(bounds: Bounds) -> Bounds:
    """Everybody who is not in the set."""
    head = bounds[1:] if bounds[:1] == (0,) else (0, *bounds)
    return head[:-1] if head[-1:] == (END,) else (*head, END)


def holds(bounds: Bounds, letter: str) -> bool:
    """Whether a character is in the set."""
    return bisect_right(bounds, ord(letter)) % 2 == 1


#: RE2's classes hold ASCII alone, whichever way they are spelled.
POSIX: Final = {
    "alnum": letters(ascii_letters + digits),
    "alpha": letters(ascii_letters),
    "ascii": spans((0, 127)),
    "blank": letters("\t "),
    "cntrl": spans((0, 31), (127, 127)),
    "digit": letters(digits),
    "graph": spans((33, 126)),
    "lower": letters(ascii_lowercase),
    "print": spans((32, 126)),
    "punct": letters(punctuation),
    "space": letters("\t\n\v\f\r "),
    "upper": letters(ascii_uppercase),
    "word": letters(ascii_letters + digits + "_"),
    "xdigit": letters(hexdigits),
}
#: The same by a letter; a capital one stands for all others.
PERL: Final = {"d": POSIX["digit"], "w": POSIX["word"], "s": letters("\t\n\f\r ")}

#: Where Unicode has anything, and the plain rest: private use, and nothing.
_ASSIGNED: Final = (range(0x32400), range(0xE0000, 0xE0200), (0xF0000, 0xFFFFE, 0x100000, 0x10FFFE))
_LATIN_BLOCKS: Final = spans(
    (0x41, 0x24F), (0x1E00, 0x1EFF), (0x2C60, 0x2C7F), (0xA722, 0xA7FF), (0xAB30, 0xAB64), (0xFB00, 0xFB06)
)


@lru_cache(maxsize=40)
def of_category(sign: str) -> Bounds:
    """Those whose general category begins so."""
    return united(bounds for name, bounds in _categories().items() if name.startswith(sign))


@lru_cache(maxsize=1)
def latin() -> Bounds:
    """The letters of the Latin script, by the blocks it has."""
    return others(united((others(of_category("L")), others(_LATIN_BLOCKS))))


@lru_cache(maxsize=1)
def _categories() -> dict[str, Bounds]:
    found: dict[str, list[int]] = {}
    current = ""
    for code in chain(*_ASSIGNED):
        if (name := category(chr(code))) != current:
            if current:
                found[current].append(code)
            found.setdefault(name, []).append(code)
            current = name
    found[current].append(END)
    return {name: tuple(bounds) for name, bounds in found.items()}
