"""A matcher that never goes back: it follows all ways through a pattern at once.  Each step is found once and kept."""

import re
from collections.abc import Iterable, Iterator
from math import inf
from re import _constants as ops  # type: ignore[attr-defined]
from typing import Any, Final, NamedTuple

from millstream.coordination.patterns.characters import (
    EVERYBODY,
    NOBODY,
    PERL,
    Bounds,
    holds,
    letters,
    others,
    spans,
    united,
)

NODES_MAX: Final = 2_000
SEQUENCES_MAX: Final = 10_000
#: All steps are forgotten when together they lead to more nodes, as RE2 does.
KEPT_MAX: Final = 100_000

_CATEGORIES: Final = {
    ops.CATEGORY_DIGIT: PERL["d"],
    ops.CATEGORY_NOT_DIGIT: others(PERL["d"]),
    ops.CATEGORY_SPACE: PERL["s"],
    ops.CATEGORY_NOT_SPACE: others(PERL["s"]),
    ops.CATEGORY_WORD: PERL["w"],
    ops.CATEGORY_NOT_WORD: others(PERL["w"]),
}
_BEGINNINGS: Final = frozenset({ops.AT_BEGINNING, ops.AT_BEGINNING_STRING})
_ENDS: Final = frozenset({ops.AT_END, ops.AT_END_STRING})

State = frozenset[int]


class Unsupported(Exception):
    """A pattern that is none here."""


class Taking(NamedTuple):
    """What a node takes: a character of the set, or in either case, or one that is not of it."""

    bounds: Bounds
    is_folded: bool = False
    is_negated: bool = False

    def takes(self, letter: str) -> bool:
        is_held = holds(self.bounds, letter) or (
            self.is_folded
            and any(len(each) == 1 and holds(self.bounds, each) for each in (letter.lower(), letter.upper()))
        )
        return is_held != self.is_negated


class Automaton:
    """A pattern as nodes: one that takes a character, one that forks, one that wants the beginning or the end."""

    def __init__(self, tree: Any) -> None:
        #: What a node takes; None for one that takes nothing and only leads on.
        self._takes: list[Taking | None] = []
        self._leads: list[list[int]] = []
        self._at_beginning: set[int] = set()
        self._at_end: set[int] = set()
        self._sequences = 0
        self._accept = self._node(Taking(NOBODY), [])
        first = self._sequence(tree, self._accept, tree.state.flags)
        self._first = frozenset(self._closed([first], is_beginning=True))
        self._steps: dict[State, dict[str, State]] = {}
        self._accepts: dict[State, bool] = {}
        #: How many nodes the steps that are kept lead to.
        self._kept = 0
        #: How many nodes may still be looked at to find steps; then the pattern is given up.
        self.work_left = inf

    def matches(self, name: str) -> bool:
        """Whether the whole name is one that the pattern stands for; ``Unsupported`` where that takes too long."""
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
        if self._kept > KEPT_MAX:
            self._steps.clear()
            self._accepts.clear()
            self._kept = 0
        leads, takers = self._leads, [(node, taking) for node in state if (taking := self._takes[node]) is not None]
        taken = [lead for node, taking in takers if taking.takes(letter) for lead in leads[node]]
        new = frozenset(self._closed(taken))
        self._steps.setdefault(state, {})[letter] = new
        self._kept += len(new) + 1
        self.work_left -= len(state) + len(new)
        if self.work_left < 0:
            raise Unsupported("it takes too long")

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

    def _node(self, takes: Taking | None, leads: list[int]) -> int:
        if len(self._takes) >= NODES_MAX:
            raise Unsupported("it is too large")
        self._takes.append(takes)
        self._leads.append(leads)
        return len(self._takes) - 1

    def _sequence(self, parts: Any, after: int, flags: int) -> int:
        self._sequences += 1
        if self._sequences > SEQUENCES_MAX:  # One that is empty has no nodes, and may be repeated all the same.
            raise Unsupported("it is too large")
        for op, argument in reversed(list(parts)):
            after = self._part(op, argument, after, flags)
        return after

    def _part(self, op: Any, argument: Any, after: int, flags: int) -> int:
        if op is ops.BRANCH:
            return self._node(None, [self._sequence(each, after, flags) for each in argument[1]])
        if op is ops.SUBPATTERN:
            _, added, removed, body = argument
            return self._sequence(body, after, (flags | added) & ~removed)
        if op in (ops.MAX_REPEAT, ops.MIN_REPEAT):
            least, most, body = argument
            return self._repeat(least, most, body, after, flags)
        if op is ops.AT:
            return self._anchor(argument, after)
        return self._node(_taking(op, argument, flags), [after])

    def _repeat(self, least: int, most: Any, body: Any, after: int, flags: int) -> int:
        if most is ops.MAXREPEAT:
            fork = self._node(None, [after])
            self._leads[fork].append(self._sequence(body, fork, flags))
            after = fork
        else:
            end = after
            for _ in range(most - least):
                after = self._node(None, [self._sequence(body, after, flags), end])
        for _ in range(least):
            after = self._sequence(body, after, flags)
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


def _taking(op: Any, argument: Any, flags: int) -> Taking:
    """What a part that stands for one character takes."""
    is_folded = bool(flags & re.IGNORECASE)
    if op is ops.ANY:
        return Taking(EVERYBODY if flags & re.DOTALL else others(letters("\n")))
    if op is ops.NOT_LITERAL:
        return Taking(spans((argument, argument)), is_folded, is_negated=True)
    if op is not ops.IN:
        return Taking(_set(op, argument), is_folded)
    is_negated = argument[0][0] is ops.NEGATE
    members = argument[1:] if is_negated else argument
    return Taking(united(_set(each, inner) for each, inner in members), is_folded, is_negated)


def _set(op: Any, argument: Any) -> Bounds:
    if op is ops.LITERAL:
        return spans((argument, argument))
    if op is ops.RANGE:
        return spans(argument)
    if op is ops.CATEGORY:
        return _CATEGORIES[argument]
    raise Unsupported(f"{op} is not known")
