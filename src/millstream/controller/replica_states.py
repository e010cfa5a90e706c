"""The life of a replica, as the controller sees it."""

from enum import Enum


class ReplicaPhase(Enum):
    """Where a replica stands."""

    NON_EXISTENT = "non-existent"
    NEW = "new"  #: assigned; its broker was not told yet
    ONLINE = "online"
    OFFLINE = "offline"  #: its broker or its log directory is gone, or it is to be deleted
    DELETION_STARTED = "deletion started"  #: its broker was told to delete it
    DELETION_SUCCESSFUL = "deletion successful"
    DELETION_INELIGIBLE = "deletion ineligible"  #: its broker is away, or failed to delete it


#: phase -> the phases it may enter.  Anything else is our bug.
TRANSITIONS = {
    ReplicaPhase.NON_EXISTENT: {ReplicaPhase.NEW},
    ReplicaPhase.NEW: {ReplicaPhase.ONLINE, ReplicaPhase.OFFLINE},
    ReplicaPhase.ONLINE: {ReplicaPhase.ONLINE, ReplicaPhase.OFFLINE},
    ReplicaPhase.OFFLINE: {
        ReplicaPhase.ONLINE,
        ReplicaPhase.OFFLINE,
        ReplicaPhase.DELETION_STARTED,
        ReplicaPhase.DELETION_INELIGIBLE,
    },
    ReplicaPhase.DELETION_STARTED: {ReplicaPhase.DELETION_SUCCESSFUL, ReplicaPhase.DELETION_INELIGIBLE},
    ReplicaPhase.DELETION_SUCCESSFUL: {ReplicaPhase.NON_EXISTENT},
    ReplicaPhase.DELETION_INELIGIBLE: {ReplicaPhase.ONLINE, ReplicaPhase.OFFLINE},
}


def entered(before: ReplicaPhase, after: ReplicaPhase) -> ReplicaPhase:
    """``after``, which must be open to a replica in ``before``."""
    assert after in TRANSITIONS[before], f"a replica that is {before.value} cannot become {after.value}"
    return after
