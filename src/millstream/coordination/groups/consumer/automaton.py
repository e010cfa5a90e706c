"""A matcher for topic names that never goes back: it follows all ways through a pattern at once.

Topic names have few characters, so that every class of them is a plain set, and each step is found once and kept.
"""

import re
from collections.abc import Iterable, Iterator
from re import _constants as ops  # type: ignore[attr-defined]
from string import ascii_letters, digits
from typing import Any, Final

ALPHABET: Final = frozenset(ascii_letters + digits + "._-")
NODES_MAX: Final = 2_000
#: Steps are forgotten when they are more, as RE2 does.
STATES_MAX: Final = 1_000

_CATEGORIES: Final = {
    category: frozenset(each for each in ALPHABET if re.fullmatch(sign, each))
    for category, sign in {
        ops.CATEGORY_DIGIT: r"\d",
        ops.CATEGORY_NOT_DIGIT: r"\D",
        ops.CATEGORY_SPACE: r"\s",
        ops.CATEGORY_NOT_SPACE: r"\S",
        ops.CATEGORY_WORD: r"\w",
        ops.CATEGORY_NOT_WORD: r"\W",
    }.items()
}
_BEGINNINGS: Final = frozenset({ops.AT_BEGINNING, ops.AT_BEGINNING_STRING})
_ENDS: Final = frozenset({ops.AT_END, ops.AT_END_STRING})

State = frozenset[int]


class Unsupported(Exception):
    """A pattern that is none here."""


class Automaton:
    """A pattern as nodes: one that takes a character, one that forks, one that wants the beginning or the end."""

    def __init__(self, tree: Any) -> None:
        #: What a node takes; None for one that takes nothing and only leads on.
        self._takes: list[frozenset[str] | None] = []
        self._leads: list[list[int]] = []
        self._at_beginning: set[int] = set()
        self._at_end: set[int] = set()
        self._accept = self._node(frozenset(), [])
        first = self._sequence(tree, self._accept, is_folded=bool(tree.state.flags & re.IGNORECASE))
        self._first = frozenset(self._closed([first], is_beginning=True))
        self._steps: dict[State, dict[str, State]] = {}
        self._accepts: dict[State, bool] = {}

    def matches(self, name: str) -> bool:
        """Whether the whole name is one that the pattern stands for."""
        state = self._first
        for letter in name:
            step = self._steps.get(state)
            if step is None or letter not in step:
                self._learn(state, letter)
                step = self._steps[state]
            state = step[letter]
            if not state:
                return False
        if state not in self._accepts:
            self._accepts[state] = self._accept in self._closed(state, is_end=True)
        return self._accepts[state]

    def _learn(self, state: State, letter: str) -> None:
        if len(self._steps) > STATES_MAX:
            self._steps.clear()
            self._accepts.clear()
        taken = [lead for node in state if letter in (self._takes[node] or ()) for lead in self._leads[node]]
        self._steps.setdefault(state, {})[letter] = frozenset(self._closed(taken))

    def _closed(self, nodes: Iterable[int], *, is_beginning: bool = False, is_end: bool = False) -> Iterator[int]:
        """These nodes, and all that they lead to without taking anything."""
        found = set(nodes)
        waiting = list(found)
        while waiting:
            node = waiting.pop()
            yield node
            is_barred = (node in self._at_beginning and not is_beginning) or (node in self._at_end and not is_end)
            if self._takes[node] is None and not is_barred:
                new = [lead for lead in self._leads[node] if lead not in found]
                found.update(new)
                waiting += new

    # Building, from the end: each part is given what comes after it.

    def _node(self, takes: frozenset[str] | None, leads: list[int]) -> int:
        if len(self._takes) >= NODES_MAX:
            raise Unsupported("it is too large")
        self._takes.append(takes)
        self._leads.append(leads)
        return len(self._takes) - 1

    def _sequence(self, parts: Any, after: int, *, is_folded: bool) -> int:
        for op, argument in reversed(list(parts)):
            after = self._part(op, argument, after, is_folded)
        return after

    def _part(self, op: Any, argument: Any, after: int, is_folded: bool) -> int:
        if op is ops.BRANCH:
            return self._node(None, [self._sequence(each, after, is_folded=is_folded) for each in argument[1]])
        if op is ops.SUBPATTERN:
            _, added, removed, body = argument
            is_folded = (is_folded or bool(added & re.IGNORECASE)) and not removed & re.IGNORECASE
            return self._sequence(body, after, is_folded=is_folded)
        if op in (ops.MAX_REPEAT, ops.MIN_REPEAT):
            least, most, body = argument
            return self._repeat(least, most, body, after, is_folded)
        if op is ops.AT:
            return self._anchor(argument, after)
        return self._node(_characters(op, argument, is_folded), [after])

    def _repeat(self, least: int, most: Any, body: Any, after: int, is_folded: bool) -> int:
        if most is ops.MAXREPEAT:
            fork = self._node(None, [after])
            self._leads[fork].append(self._sequence(body, fork, is_folded=is_folded))
            after = fork
        else:
            end = after
            for _ in range(most - least):
                after = self._node(None, [self._sequence(body, after, is_folded=is_folded), end])
        for _ in range(least):
            after = self._sequence(body, after, is_folded=is_folded)
        return after

    def _anchor(self, place: Any, after: int) -> int:
        node = self._node(None, [after])
        if place in _BEGINNINGS:
            self._at_beginning.add(node)
        elif place in _ENDS:
            self._at_end.add(node)
        else:
            raise Unsupported(f"{place} with so many repeats")
        return node


def _characters(op: Any, argument: Any, is_folded: bool) -> frozenset[str]:
    """What a part that stands for one character takes."""
    if op is ops.ANY:
        return ALPHABET
    if op is ops.NOT_LITERAL:
        return ALPHABET - _folded({chr(argument)}, is_folded)
    if op is ops.LITERAL:
        return _folded({chr(argument)}, is_folded)
    if op is ops.RANGE:
        first, last = argument
        return _folded({each for each in map(chr, range(128)) if first <= ord(each) <= last}, is_folded)
    if op is ops.CATEGORY:
        return _CATEGORIES[argument]
    if op is not ops.IN:
        raise Unsupported(f"{op} is not known")
    is_negated = argument[0][0] is ops.NEGATE
    members = argument[1:] if is_negated else argument
    taken = frozenset().union(*(_characters(each, inner, is_folded) for each, inner in members))
    return ALPHABET - taken if is_negated else taken


def _folded(letters: set[str], is_folded: bool) -> frozenset[str]:
    if is_folded:
        letters = letters | {each.lower() for each in letters} | {each.upper() for each in letters}
    return ALPHABET & letters
