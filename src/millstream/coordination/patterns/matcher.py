"""Which names a client's pattern stands for.

Kafka's patterns are RE2's, which are matched in time linear in the name whatever they are, so that no client can hold
up a coordinator with one.  Here a pattern in which Python's own matcher cannot lose its way is left to it, and any
other goes through ``automaton``.  What RE2 does not know is refused.
"""

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, Final

from millstream.coordination.patterns.automaton import Automaton, Unsupported
from millstream.coordination.patterns.re2 import translated
from millstream.model.errors import ErrorCode, ProtocolError

#: Parts of Python's own patterns that RE2 has not.
_FOREIGN: Final = frozenset(
    {
        ops.ASSERT,
        ops.ASSERT_NOT,
        ops.GROUPREF,
        ops.GROUPREF_EXISTS,
        ops.ATOMIC_GROUP,
        ops.POSSESSIVE_REPEAT,
    }
)
_REPEATS: Final = frozenset({ops.MAX_REPEAT, ops.MIN_REPEAT})
_SINGLE: Final = frozenset({ops.LITERAL, ops.NOT_LITERAL, ops.ANY, ops.IN})
#: With so many repeats a matcher that goes back takes at most the square of a name's length.
_REPEATS_MAX: Final = 2


#: Which is little as long as no name is longer than a topic's may be.
_NAME_MAX: Final = 249
#: How much work a client's pattern may be, some tens of milliseconds; ordinary ones take a hundredth.
WORK_MAX: Final = 200_000


class _Matcher:
    """A pattern, ready to be matched; ``Unsupported`` where it is none."""

    def __init__(self, regex: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # What Python finds doubtful means something else in RE2.
            spelled = translated(regex)
            self._tree = parser.parse(spelled)
            self._pattern = re.compile(spelled)
        if foreign := next((op for op, _ in _parts(self._tree) if op in _FOREIGN), None):
            raise Unsupported(f"{foreign} is not known to RE2")
        self._is_tame = _is_tame(self._tree)
        if not self._is_tame:
            _ = self._automaton  # Refused at once where it cannot be built.

    @cached_property
    def _automaton(self) -> Automaton:
        return Automaton(self._tree)

    def selected(self, names: Sequence[str], work_max: float) -> frozenset[str]:
        matches: Callable[[str], object] = self._pattern.fullmatch
        if not self._is_tame or any(len(name) > _NAME_MAX for name in names):
            self._automaton.work_left = work_max
            matches = self._automaton.matches
        return frozenset(name for name in names if matches(name))


_matcher = lru_cache(maxsize=256)(_Matcher)


def matching(regex: str, names: Iterable[str], work_max: float = WORK_MAX) -> frozenset[str]:
    """The names that the whole pattern matches; INVALID_REGULAR_EXPRESSION where it is none, or takes more work."""
    try:
        return _matcher(regex).selected(list(names), work_max)
    except (re.error, Warning, Unsupported, OverflowError, RecursionError) as fault:
        raise ProtocolError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{regex!r}: {fault}") from fault


def _parts(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every part of a pattern, however deep."""
    for op, argument in tree:
        yield op, argument
        for inner in _inner(argument):
            yield from _parts(inner)


def _is_tame(tree: Any) -> bool:
    """Whether there are few ways through the pattern: little is repeated, single characters only, and it forks once."""
    parts = list(_parts(tree))
    bodies = [list(argument[2]) for op, argument in parts if op in _REPEATS]
    return (
        len(bodies) <= _REPEATS_MAX
        and all(len(body) == 1 and body[0][0] in _SINGLE for body in bodies)
        and sum(op is ops.BRANCH for op, _ in parts) <= 1
    )


def _inner(argument: Any) -> Iterator[Any]:
    """The patterns within a part: itself, or among what its tuple or list holds."""
    if isinstance(argument, parser.SubPattern):
        yield argument
    elif isinstance(argument, tuple | list):
        for each in argument:
            yield from _inner(each)
