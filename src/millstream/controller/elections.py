"""Who leads a partition: one rule for each occasion.

Each takes the replicas in order of preference, the in-sync set, and the brokers that are alive; each answers None
when nobody may lead.
"""

from collections.abc import Container, Sequence
from typing import NamedTuple


class Elected(NamedTuple):
    """A leader, and the in-sync set it starts with."""

    leader: int
    isr: tuple[int, ...]
    is_unclean: bool = False


def initial(replicas: Sequence[int], live: Container[int]) -> Elected | None:
    """A new partition: the first live replica; all live ones are in sync, for there is nothing to copy yet."""
    alive = tuple(replica for replica in replicas if replica in live)
    return Elected(alive[0], alive) if alive else None


def offline(
    replicas: Sequence[int], isr: Sequence[int], live: Container[int], *, is_unclean_allowed: bool = False
) -> Elected | None:
    """The leader is gone: the first live replica of the in-sync set.

    Where none is left and the topic allows it, the first live replica at all, which may lose what it never copied.
    """
    alive_in_sync = tuple(replica for replica in isr if replica in live)
    for replica in replicas:
        if replica in alive_in_sync:
            return Elected(replica, alive_in_sync)
    if is_unclean_allowed:
        for replica in replicas:
            if replica in live:
                return Elected(replica, (replica,), is_unclean=True)
    return None


def preferred(replicas: Sequence[int], isr: Sequence[int], live: Container[int]) -> Elected | None:
    """The first replica of the assignment, or nobody."""
    return _first(replicas[:1], isr, live)


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
