"""RE2's patterns in Python's words: what both have is left as it is, and RE2's own is spelled out.

Classes of characters are spelled as those of them that a topic's name may have.
"""

import re
from collections.abc import Callable
from string import ascii_letters, ascii_lowercase, ascii_uppercase, digits, hexdigits, punctuation
from typing import Final
from unicodedata import category

from millstream.coordination.groups.consumer.automaton import ALPHABET, Unsupported

#: Matches no name: nothing that a topic's name may have.
_NOTHING: Final = "\\x00"
_POSIX: Final = {
    name: ALPHABET & frozenset(members)
    for name, members in {
        "alnum": ascii_letters + digits,
        "alpha": ascii_letters,
        "ascii": "".join(ALPHABET),
        "blank": "",
        "cntrl": "",
        "digit": digits,
        "graph": "".join(ALPHABET),
        "lower": ascii_lowercase,
        "print": "".join(ALPHABET),
        "punct": punctuation,
        "space": "",
        "upper": ascii_uppercase,
        "word": ascii_letters + digits + "_",
        "xdigit": hexdigits,
    }.items()
}
#: Unicode's general categories; of its scripts only ours is known.
_CATEGORY: Final = re.compile("[CLMNPSZ][a-z]?")
_BY_SIGN: Final = {"Latin": "L", "Any": ""}

#: Each kind of thing that RE2 spells in its own way; whatever else there is passes as it stands.
_TOKEN: Final = re.compile(
    r"""
      (?P<quote> \\Q (?P<quoted> .*? ) (?: \\E | \Z ) )
    | (?P<end> \\z )
    | (?P<byte> \\C )
    | (?P<code> \\x \{ (?P<digits> [0-9A-Fa-f]+ ) \} )
    | (?P<property> \\ (?P<sign> [pP] ) (?: (?P<letter> \w ) | \{ (?P<caret> \^? ) (?P<name> \w+ ) \} ) )
    | (?P<escape> \\ . )
    | (?P<posix> \[ : (?P<not> \^? ) (?P<class> \w+ ) : \] )
    | (?P<open> \[ \^? \]? )
    | (?P<close> \] )
    | (?P<group> \( \? < (?! [=!] ) )
    | (?P<doubtful> [&~|] )
    | (?P<plain> . )
    """,
    re.VERBOSE | re.DOTALL,
)


def translated(pattern: str) -> str:
    """The pattern for Python's parser; ``Unsupported`` where a class is not known."""
    parts: list[str] = []
    is_inside = False  # Between brackets.
    for token in _TOKEN.finditer(pattern):
        kind = token.lastgroup
        text = token.group()
        if text.startswith("[") and kind != "posix" and is_inside:
            # An opening bracket between brackets is itself; what follows it may close them.
            parts.append("\\[" + text[1:])
            is_inside = not text.endswith("]")
            continue
        if kind == "posix" and not is_inside:  # As brackets around these very characters.
            parts.append(text)
            continue
        if kind in _SPELLED:
            parts.append(_SPELLED[kind](token, is_inside))
            continue
        is_inside = (is_inside or kind == "open") and kind != "close"
        parts.append("\\" + text if kind == "doubtful" and is_inside else text)
    return "".join(parts)


def _spell_property(token: re.Match[str], is_inside: bool) -> str:
    name = token["letter"] or token["name"]
    sign = _BY_SIGN.get(name, name)
    if sign and not _CATEGORY.fullmatch(sign):
        raise Unsupported(f"{name} is no class of characters that is known")
    members = frozenset(each for each in ALPHABET if category(each).startswith(sign))
    is_negated = (token["sign"] == "P") != bool(token["caret"])
    return _spelled(ALPHABET - members if is_negated else members, is_inside)


def _spell_posix(token: re.Match[str], is_inside: bool) -> str:
    members = _POSIX.get(token["class"])
    if members is None:
        raise Unsupported(f"{token['class']} is no class of characters that is known")
    return _spelled(ALPHABET - members if token["not"] else members, is_inside)


def _spelled(members: frozenset[str], is_inside: bool) -> str:
    text = "".join(re.escape(each) for each in sorted(members)) or _NOTHING
    return text if is_inside else f"[{text}]"


_SPELLED: Final[dict[str | None, Callable[[re.Match[str], bool], str]]] = {
    "quote": lambda token, _: re.escape(token["quoted"]),
    "end": lambda _, __: "\\Z",
    "byte": lambda _, __: ".",
    "code": lambda token, _: re.escape(chr(min(int(token["digits"], 16), 0x10FFFF))),
    "property": _spell_property,
    "posix": _spell_posix,
    "group": lambda _, __: "(?P<",
}
