"""What the timers of classic groups tell."""

from typing import NamedTuple


class SessionExpired(NamedTuple):
    """A member was silent for its whole session, or an id that was handed out was never used."""

    group_id: str
    member_id: str


class InitialDelayOver(NamedTuple):
    """An empty group has waited for company; ``remaining_ms`` is what its rebalance time-out leaves for more of it."""

    group_id: str
    delay_ms: int
    remaining_ms: int


class JoinExpired(NamedTuple):
    """Whoever has not re-joined by now is left behind."""

    group_id: str


class SyncExpired(NamedTuple):
    """Whoever has not asked for its assignment of this generation by now is left behind."""

    group_id: str
    generation: int


class RebalanceWanted(NamedTuple):
    """A group was made from one of another protocol, and its members are to meet."""

    group_id: str
    reason: str
