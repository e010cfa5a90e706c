"""Spark SQL as a row of tokens: just enough to know what is text, a comment or a quoted name, and what is not."""

import re
from enum import Enum, auto
from typing import NamedTuple

from millstream.pipelines.history.errors import QueryError


class Kind(Enum):
    """What a token is."""

    SPACE = auto()  #: Comments too.
    WORD = auto()
    QUOTED = auto()
    STRING = auto()
    NUMBER = auto()
    SIGN = auto()


class Token(NamedTuple):
    """A piece of the query, where it begins and where it ends."""

    kind: Kind
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    def says(self, *words: str) -> bool:
        """Whether it is one of these words or signs, which must be given in capitals."""
        return self.kind in (Kind.WORD, Kind.SIGN) and self.text.upper() in words

    @property
    def name(self) -> str:
        """A word or quoted name as the name it stands for."""
        return self.text[1:-1].replace("``", "`") if self.kind is Kind.QUOTED else self.text


#: In this order: the first that fits is taken.
_PATTERNS = {
    Kind.SPACE: r"(?:\s+|--(?:\\\n|[^\n])*)+",
    Kind.STRING: r"""[rR](?:'[^']*'|"[^"]*")|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|"""
    r"""\$(?P<tag>\w*)\$.*?\$(?P=tag)\$""",
    Kind.QUOTED: r"`(?:[^`]|``)*`",
    Kind.NUMBER: r"\d+(?:\.\d+)?\w*",
    Kind.WORD: r"[^\W\d]\w*",
    Kind.SIGN: r"=>|.",
}
_TOKEN = re.compile("|".join(f"(?P<{kind.name}>{pattern})" for kind, pattern in _PATTERNS.items()), re.DOTALL)
_COMMENT = re.compile(r"/\*|\*/")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}


def tokens(sql: str) -> list[Token]:
    """All tokens but spaces and comments; QueryError for a quote or comment that has no end."""
    found, at = [], 0
    while at < len(sql):
        if sql.startswith("/*", at):
            at = _after_comment(sql, at)
            continue
        match = _TOKEN.match(sql, at)
        assert match is not None and match.lastgroup is not None, "a sign fits everything"
        kind = next(kind for kind in Kind if match[kind.name] is not None)
        if kind is Kind.SIGN and match[0] in "'\"`":
            raise QueryError(f"the quote {match[0]} {_place(sql, at)} is never closed")
        if kind is not Kind.SPACE:
            found.append(Token(kind, match[0], at))
        at = match.end()
    return found


def _after_comment(sql: str, start: int) -> int:
    """Where a comment ends that begins at ``start``; one may hold others."""
    depth = 0
    for mark in _COMMENT.finditer(sql, start):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    raise QueryError(f"the comment {_place(sql, start)} is never closed")


def _place(sql: str, at: int) -> str:
    line_start = sql.rfind("\n", 0, at) + 1
    return f"(line {sql.count(chr(10), 0, at) + 1}, pos {at - line_start})"


def text_of(literal: str) -> str:
    """The text that a string literal stands for."""
    if literal.startswith("$"):
        mark = literal[: literal.index("$", 1) + 1]
        return literal.removeprefix(mark).removesuffix(mark)
    if literal[0] in "rR":
        return literal[2:-1]
    return _ESCAPE.sub(_unescaped, literal[1:-1].replace(literal[0] * 2, literal[0]))


def _unescaped(match: re.Match[str]) -> str:
    letter = match[1]
    if len(letter) > 1:
        return chr(int(letter[1:], 16))
    return _ESCAPED.get(letter, letter)
