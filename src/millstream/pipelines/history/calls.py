"""``topic('orders', …)`` in a query: found, read, and replaced by the name of a view that Spark knows.

A call in place of a table cannot be left to Spark: a function of Python's would get no filters and hand over its rows
one by one, where a view of our source reads only what the query asks for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple

from millstream.pipelines.history.errors import QueryError
from millstream.pipelines.history.tokens import Kind, Token, text_of, tokens

Value = str | int | bool

#: Every argument: its name -> what it may be.
ARGUMENTS: dict[str, tuple[type, ...]] = {
    "format": (str,),
    "schema": (str,),
    "key": (str,),
    "key_format": (str,),
    "errors": (str,),
    "headers": (bool,),
    "isolation": (str,),
    "from_offset": (int, str),
    "to_offset": (int, str),
    "from_time": (int, str),
    "to_time": (int, str),
    "disorder": (int, str),
}
_KINDS = {str: "text", int: "a whole number", bool: "true or false"}
#: ``… AS OF`` behind a call -> the argument that it stands for.
_TRAVELS = {"VERSION": "version", "SYSTEM_VERSION": "version", "TIMESTAMP": "as_of", "SYSTEM_TIME": "as_of"}
_BOOLEANS = {"TRUE": True, "FALSE": False}


@dataclass(frozen=True, slots=True)
class Call:
    """A topic, or several with commas, and the arguments in the order of their names.

    ``version`` and ``as_of`` are what stood behind the call: the table of so many offsets, or of that moment.
    """

    topic: str
    arguments: tuple[tuple[str, Value], ...] = ()

    def get(self, name: str) -> Value | None:
        return dict(self.arguments).get(name)

    def text(self, name: str, default: str = "") -> str:
        value = self.get(name)
        return default if value is None else str(value)

    def wrong(self, name: str, must: str) -> QueryError:
        """What to raise for an argument that cannot be taken."""
        value = self.get(name)
        shown = repr(value) if isinstance(value, str) else str(value).lower()
        return QueryError(f"topic({self.topic!r}): {name} => {shown}: {must}")


class Rewritten(NamedTuple):
    """A query over views, and what each view stands for."""

    sql: str
    calls: dict[str, Call]


def rewrite(sql: str) -> Rewritten:
    """The query with each call replaced by a view's name, and everything else where it was."""
    row = tokens(sql)
    while row and row[-1].says(";"):
        row.pop()
    if not row:
        raise QueryError("the query is empty; write one such as SELECT * FROM topic('orders')")
    if any(token.says(";") for token in row):
        raise QueryError("this is more than one statement; leave out the `;` between them and run each by itself")
    views, pieces, at = _Views(row), list[str](), 0
    parser = _Parser(row)
    for call, first, last in parser.calls():
        pieces.append(sql[at : first.start])
        pieces.append(_filled(f"`{views.name_of(call)}`", sql[first.start : last.end]))
        at = last.end
    return Rewritten("".join(pieces) + sql[at : row[-1].end], views.calls)


def _filled(name: str, replaced: str) -> str:
    """The name, with spaces behind it that let whatever Spark says about a place be right."""
    return name + "".join("\n" if letter == "\n" else " " for letter in replaced[len(name) :])


class _Views:
    """Names for views: those of their topics, unless the query gives such a name to something else."""

    def __init__(self, row: Sequence[Token]) -> None:
        named = zip(row, row[1:], row[2:], strict=False)
        self._taken = {
            token.name.lower()
            for token, after, then in named
            if token.kind in (Kind.WORD, Kind.QUOTED) and (after.says("(") or (after.says("AS") and then.says("(")))
        }
        self.calls: dict[str, Call] = {}

    def name_of(self, call: Call) -> str:
        for name, known in self.calls.items():
            if known == call:
                return name
        name, number = call.topic.replace("`", ""), 1
        while name.lower() in self._taken:
            number += 1
            name = f"{call.topic}_{number}"
        self._taken.add(name.lower())
        self.calls[name] = call
        return name


class _Parser:
    """Goes along the tokens from call to call."""

    def __init__(self, row: Sequence[Token]) -> None:
        self._row = row
        self._at = 0

    def calls(self) -> "list[tuple[Call, Token, Token]]":
        """Each call with its first and its last token."""
        found = []
        while self._at < len(self._row):
            first = self._row[self._at]
            if self._is_call():
                call = self._call()
                found.append((call, first, self._row[self._at - 1]))
            else:
                self._at += 1
        return found

    def _is_call(self) -> bool:
        """A table function, not a column of that name nor somebody else's function."""
        row, at = self._row, self._at
        if not (row[at].says("TOPIC") and self._peek(1, "(")) or (at and row[at - 1].says(".")):
            return False
        stands_for_table = at > 0 and row[at - 1].says("FROM", "JOIN")
        return stands_for_table or (at + 2 < len(row) and row[at + 2].kind is Kind.STRING)

    def _call(self) -> Call:
        self._at += 2
        name = self._next("a topic's name in quotes")
        if name.kind is not Kind.STRING or not (topic := text_of(name.text).strip()):
            raise QueryError(f"topic({name.text}…): the topic's name comes first, in quotes: topic('orders')")
        given: dict[str, Value] = {}
        while not (after := self._next("`)`")).says(")"):
            if not after.says(","):
                raise QueryError(f"topic({topic!r}): `,` or `)` is missing before `{after.text}`")
            argument = self._next("an argument")
            name_of_it = argument.text.lower()
            if argument.kind is not Kind.WORD or not self._next("=>").says("=>"):
                raise QueryError(f"topic({topic!r}): arguments have names: `format => 'json'`, not `{argument.text}`")
            if name_of_it in given:
                raise QueryError(f"topic({topic!r}): {name_of_it} is given twice")
            given[name_of_it] = self._value(topic, name_of_it)
        _check(topic, given)
        given |= self._travel(topic)
        return Call(topic, tuple(sorted(given.items())))

    def _travel(self, topic: str) -> dict[str, Value]:
        """What ``[FOR] TIMESTAMP|VERSION AS OF …`` says, if it stands here."""
        start = self._at + 1 if self._peek(0, "FOR") else self._at
        skipped = start - self._at
        if not (self._peek(skipped, *_TRAVELS) and self._peek(skipped + 1, "AS") and self._peek(skipped + 2, "OF")):
            return {}
        way = self._row[start].text.upper()
        self._at = start + 3
        name = _TRAVELS[way]
        value = self._value(topic, f"{way} AS OF")
        if isinstance(value, bool) or (name == "version" and not isinstance(value, int)):
            raise QueryError(
                f"topic({topic!r}): {way} AS OF takes {'a number of offsets' if name == 'version' else 'a time'}"
            )
        return {name: value}

    def _value(self, topic: str, name: str) -> Value:
        token = self._next(f"a value for {name}")
        if token.says("TIMESTAMP", "DATE") and self._at < len(self._row) and self._row[self._at].kind is Kind.STRING:
            token = self._next("a time")
        sign = -1 if token.says("-") else 1
        if token.says("-", "+"):
            token = self._next("a number")
        if token.kind is Kind.STRING:
            return text_of(token.text)
        if token.kind is Kind.NUMBER and (digits := token.text.upper().removesuffix("L")).isdigit():
            return sign * int(digits)
        if token.says(*_BOOLEANS):
            return _BOOLEANS[token.text.upper()]
        raise QueryError(
            f"topic({topic!r}): {name} takes text in quotes, a whole number, true or false, not `{token.text}`"
        )

    def _peek(self, ahead: int, *words: str) -> bool:
        at = self._at + ahead
        return at < len(self._row) and self._row[at].says(*words)

    def _next(self, wanted: str) -> Token:
        if self._at == len(self._row):
            raise QueryError(f"the query ends within topic(…), where {wanted} is missing")
        self._at += 1
        return self._row[self._at - 1]


def _check(topic: str, given: dict[str, Value]) -> None:
    """QueryError for an argument that there is not, or that is of another kind."""
    for name, value in given.items():
        if name not in ARGUMENTS:
            close = get_close_matches(name, ARGUMENTS, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(ARGUMENTS)}"
            raise QueryError(f"topic({topic!r}) has no argument {name}; {hint}")
        kinds = ARGUMENTS[name]
        if type(value) not in kinds:
            must = " or ".join(_KINDS[kind] for kind in kinds)
            raise Call(topic, ((name, value),)).wrong(name, f"must be {must}")
