"""What classic groups are told: by timers, and when the log does not take their records."""

from typing import Any, NamedTuple

from millstream.model.errors import ErrorCode


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


class AssignmentRefused(NamedTuple):
    """The leader's assignment could not be written down: it may be too large for the log."""

    group_id: str
    #: The members that wait for it, and what was decided before that: answers to requests that others superseded.
    tickets: tuple[tuple[str, int], ...]
    answers: tuple[tuple[int, Any], ...]
    code: ErrorCode
