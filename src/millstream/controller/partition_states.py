"""The life of a partition, as the controller sees it."""

from enum import Enum


class Phase(Enum):
    """Where a partition stands."""

    NON_EXISTENT = "non-existent"
    NEW = "new"  #: replicas are assigned, nobody was elected yet
    ONLINE = "online"  #: it has a live leader
    OFFLINE = "offline"  #: its leader is gone and nobody could be elected


#: phase -> the phases it may enter.  Anything else is our bug.
TRANSITIONS = {
    Phase.NON_EXISTENT: {Phase.NEW},
    Phase.NEW: {Phase.ONLINE, Phase.OFFLINE},
    Phase.ONLINE: {Phase.ONLINE, Phase.OFFLINE},
    Phase.OFFLINE: {Phase.ONLINE, Phase.OFFLINE, Phase.NON_EXISTENT},
}


def entered(before: Phase, after: Phase) -> Phase:
    """``after``, which must be open to a partition in ``before``."""
    assert after in TRANSITIONS[before], f"a partition that is {before.value} cannot become {after.value}"
    return after
