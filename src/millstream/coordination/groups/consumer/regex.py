"""Subscription by pattern: which of the cluster's topics a pattern stands for.

Kafka's patterns are RE2's.  What RE2 does not know, because no linear matcher can do it, is refused here too.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from millstream.model.errors import ErrorCode, ProtocolError


def matching(regex: str, names: Iterable[str]) -> frozenset[str]:
    """The names that the whole pattern matches; INVALID_REGULAR_EXPRESSION where it is none."""
    match = compiled(regex).fullmatch
    return frozenset(name for name in names if match(name))


@lru_cache(maxsize=256)
def compiled(regex: str) -> re.Pattern[str]:
    """The pattern, or INVALID_REGULAR_EXPRESSION."""
    try:
        return re.compile(regex)
    except (re.error, OverflowError, RecursionError) as fault:
        raise ProtocolError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{regex!r}: {fault}") from fault
