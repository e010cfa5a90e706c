"""RE2's patterns in Python's words: what both have is left as it is, and RE2's own is spelled out."""

import re
from collections.abc import Callable
from typing import Final

from millstream.coordination.patterns.automaton import Unsupported
from millstream.coordination.patterns.characters import PERL, POSIX, Bounds, latin, of_category, others, ranges_of

#: Classes may make a pattern much longer than it was; this is as much as is parsed without holding anybody up.
SPELLED_MAX: Final = 60_000
#: Unicode's general categories; of its scripts only ours is known.
_CATEGORY: Final = re.compile("[CLMNPSZ][a-z]?")

#: Each kind of thing that RE2 spells in its own way; whatever else there is passes as it stands.
_TOKEN: Final = re.compile(
    r"""
      (?P<quote> \\Q (?P<quoted> .*? ) (?: \\E | \Z ) )
    | (?P<end> \\z )
    | (?P<byte> \\C )
    | (?P<code> \\x \{ (?P<digits> [0-9A-Fa-f]+ ) \} )
    | (?P<property> \\ (?P<sign> [pP] ) (?: (?P<letter> \w ) | \{ (?P<caret> \^? ) (?P<name> \w+ ) \} ) )
    | (?P<perl> \\ (?P<kind> [dDwWsS] ) )
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
    """The pattern for Python's parser; ``Unsupported`` where a class is not known, or it is too large."""
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
    spelled = "".join(parts)
    if len(spelled) > SPELLED_MAX:
        raise Unsupported("it is too large")
    return spelled


def _spell_property(token: re.Match[str], is_inside: bool) -> str:
    name = token["letter"] or token["name"]
    sign = "" if name == "Any" else name
    if sign and sign != "Latin" and not _CATEGORY.fullmatch(sign):
        raise Unsupported(f"{name} is no class of characters that is known")
    members = latin() if sign == "Latin" else of_category(sign)
    is_negated = (token["sign"] == "P") != bool(token["caret"])
    return _spelled(others(members) if is_negated else members, is_inside)


def _spell_posix(token: re.Match[str], is_inside: bool) -> str:
    members = POSIX.get(token["class"])
    if members is None:
        raise Unsupported(f"{token['class']} is no class of characters that is known")
    return _spelled(others(members) if token["not"] else members, is_inside)


def _spell_perl(token: re.Match[str], is_inside: bool) -> str:
    kind = token["kind"]
    members = PERL[kind.lower()]
    return _spelled(members if kind.islower() else others(members), is_inside)


def _spelled(members: Bounds, is_inside: bool) -> str:
    if not members:
        raise Unsupported("it has a class of no characters at all")
    text = "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in ranges_of(members))
    return text if is_inside else f"[{text}]"


_SPELLED: Final[dict[str | None, Callable[[re.Match[str], bool], str]]] = {
    "quote": lambda token, _: re.escape(token["quoted"]),
    "end": lambda _, __: "\\Z",
    "byte": lambda _, __: ".",
    "code": lambda token, _: re.escape(chr(min(int(token["digits"], 16), 0x10FFFF))),
    "property": _spell_property,
    "perl": _spell_perl,
    "posix": _spell_posix,
    "group": lambda _, __: "(?P<",
}
