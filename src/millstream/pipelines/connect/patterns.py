"""Java's regular expressions, as configs are full of them, in Python's."""

import re
from functools import lru_cache

_NAMED_GROUP = re.compile(r"\(\?<(?=[A-Za-z])")
_NAMED_BACK_REFERENCE = re.compile(r"\\k<([A-Za-z][A-Za-z0-9]*)>")
_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|$)", re.DOTALL)
_CLASS = re.compile(r"\\(p|P)\{(?:Is)?([A-Za-z]+)\}")
#: Java's classes of characters, as the inside of Python's.
_CLASSES = {
    "Alnum": "A-Za-z0-9",
    "Alpha": "A-Za-z",
    "ASCII": "\\x00-\\x7f",
    "Blank": " \\t",
    "Cntrl": "\\x00-\\x1f\\x7f",
    "Digit": "0-9",
    "Graph": "!-~",
    "L": "^\\W\\d_",
    "Lower": "a-z",
    "Print": " -~",
    "Punct": "!-/:-@\\[-`{-~",
    "Space": " \\t\\n\\x0b\\f\\r",
    "Upper": "A-Z",
    "XDigit": "0-9A-Fa-f",
}
_REPLACEMENT = re.compile(r"\\(.)|\$\{([A-Za-z][A-Za-z0-9]*)\}|\$(\d)(\d*)|\\$|\$", re.DOTALL)


@lru_cache(maxsize=64)
def compile_pattern(java: str) -> re.Pattern[str]:
    """The pattern; ``re.error`` when it is none."""
    text = _QUOTED.sub(lambda match: re.escape(match[1]), java)
    text = _NAMED_GROUP.sub("(?P<", text)
    text = _NAMED_BACK_REFERENCE.sub(r"(?P=\1)", text)
    return re.compile(_with_classes(text), re.ASCII)


def _with_classes(text: str) -> str:
    def written(match: re.Match[str]) -> str:
        inside = _CLASSES.get(match[2])
        if inside is None:
            raise re.error(f"unknown class of characters {match[0]}")
        within = _is_within_brackets(text, match.start())
        if within and (match[1] == "P" or inside.startswith("^")):
            raise re.error(f"{match[0]} within brackets")
        if within:
            return inside
        if match[1] == "P":
            return f"[{inside[1:]}]" if inside.startswith("^") else f"[^{inside}]"
        return f"[{inside}]"

    return _CLASS.sub(written, text)


def _is_within_brackets(text: str, place: int) -> bool:
    """Whether the place lies in a class of characters, which begins with a bracket that nothing escapes."""
    before = re.sub(r"\\.", "", text[:place])
    return before.rfind("[") > before.rfind("]")


def is_pattern(java: str) -> bool:
    """Whether it can be compiled."""
    try:
        compile_pattern(java)
    except (re.error, OverflowError):
        return False
    return True


def replaced(match: re.Match[str], replacement: str) -> str:
    """The replacement with what the match has for ``$1`` and ``${name}``; a backslash takes the next as it is."""

    def group(found: re.Match[str]) -> str:
        literal, name, digit, more = found.group(1, 2, 3, 4)
        if literal is not None:
            return str(literal)
        if name is not None:
            return match[name] or ""
        if digit is None:
            raise IndexError(f"no group at {found[0]!r} in {replacement!r}")
        # As many digits as name a group that is there; the rest is text.
        number = int(digit)
        while more and number * 10 + int(more[0]) <= match.re.groups:
            number, more = number * 10 + int(more[0]), more[1:]
        return (match[number] or "") + more

    return _REPLACEMENT.sub(group, replacement)
