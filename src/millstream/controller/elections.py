"""Who leads a partition: one rule for each occasion.

Each takes the replicas in order of preference, the in-sync set, and the brokers that are alive; each answers None
when nobody may lead.
"""

from collections.abc import Collection, Container, Sequence
from typing import NamedTuple

from millstream.controller.interface import NO_LEADER


class Elected(NamedTuple):
    """A leader, and the in-sync set it starts with."""

    leader: int
    isr: tuple[int, ...]
    is_unclean: bool = False  #: it may lack records that were committed


def initial(replicas: Sequence[int], live: Container[int]) -> Elected | None:
    """A new partition: the first live replica; all live ones are in sync, for there is nothing to copy yet."""
    alive = tuple(replica for replica in replicas if replica in live)
    return Elected(alive[0], alive) if alive else None


def offline(
    replicas: Sequence[int],
    isr: Sequence[int],
    live: Container[int],
    *,
    eligible: Collection[int] = (),
    last_known: int = NO_LEADER,
    is_unclean_allowed: bool = False,
) -> Elected | None:
    """The leader is gone: the first live replica of the in-sync set, else of those that are eligible.

    Where nobody is known any more to have everything, whoever led last: it lost least.  Where it is away and the topic
    allows it, the first live replica at all, which may lose what it never copied.
    """
    alive_in_sync = tuple(replica for replica in isr if replica in live)
    for replica in replicas:
        if replica in alive_in_sync:
            return Elected(replica, alive_in_sync)
    for replica in replicas:
        if replica in eligible and replica in live:
            return Elected(replica, (replica,))
    if not isr and not eligible and last_known in replicas and last_known in live:
        return Elected(last_known, (last_known,), is_unclean=len(replicas) > 1)
    if is_unclean_allowed:
        for replica in replicas:
            if replica in live:
                return Elected(replica, (replica,), is_unclean=True)
    return None


def preferred(replicas: Sequence[int], isr: Sequence[int], live: Container[int]) -> Elected | None:
    """The first replica of the assignment, or nobody."""
    return _first(replicas[:1], isr, live)


def reassigned(target: Sequence[int], isr: Sequence[int], live: Container[int]) -> Elected | None:
    """The leader is moved away: the first of those that stay and are in sync."""
    return _first(target, isr, live)


def controlled_shutdown(
    replicas: Sequence[int], isr: Sequence[int], live: Container[int], leaving: Container[int]
) -> Elected | None:
    """The leader asks to leave: the first replica that is alive, in sync and stays."""
    staying = tuple(replica for replica in isr if replica not in leaving)
    return _first(replicas, staying, live)


def _first(replicas: Sequence[int], isr: Sequence[int], live: Container[int]) -> Elected | None:
    for replica in replicas:
        if replica in live and replica in isr:
            return Elected(replica, tuple(isr))
    return None


def eligible_after(
    before: Collection[int], isr: Collection[int], min_in_sync: int | None, unclean: Container[int] = ()
) -> tuple[int, ...]:
    """Who of those that had everything committed ``before`` still has, now that ``isr`` is in sync.

    Nothing is committed while fewer than ``min_in_sync`` are in sync, so whoever leaves then misses nothing.  With
    enough of them records are committed without the others, and nobody else is eligible.  Where nobody leads
    (``min_in_sync`` is None) nothing is committed, however many were in sync.  One that came back ``unclean`` may have
    lost what it had.
    """
    if min_in_sync is not None and len(isr) >= min_in_sync:
        return ()
    return tuple(replica for replica in before if replica not in isr and replica not in unclean)
