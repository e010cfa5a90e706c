"""Where a follower stands in one partition, and what it makes of its leader's answers.

Pure.  A log is cut only where leader epochs tell that it left the leader's; a high watermark never decides about that.
Nothing that a leader answers is the end: whatever fails is tried again, later and later, until the controller has
another leader for us.
"""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from millstream.model.errors import ErrorCode

NO_EPOCH = -1
#: How long the first failure in a row is waited out; each further one doubles it, up to replica.fetch.backoff.ms.
BACKOFF_MS = 20


class State(Enum):
    """What a follower does about a partition."""

    #: It fetches at its log's end.
    FETCHING = "fetching"
    #: Its log's end lies outside the leader's log, or has left it: it asks where the leader's begins and ends.
    ASTRAY = "astray"
    #: Something failed; it tries again later.
    DELAYED = "delayed"
    #: Only another word from the controller helps.
    FAILED = "failed"


#: state -> the states it may enter next.  Anything else is our own bug.
TRANSITIONS: dict[State, set[State]] = {
    State.FETCHING: {State.FETCHING, State.ASTRAY, State.DELAYED, State.FAILED},
    State.ASTRAY: {State.FETCHING, State.DELAYED, State.FAILED},
    State.DELAYED: {State.FETCHING, State.ASTRAY, State.FAILED},
    State.FAILED: set(),
}

#: What a leader's refusal leads to, if not to another try.
AFTER_REFUSAL: dict[ErrorCode, State] = {
    ErrorCode.OFFSET_OUT_OF_RANGE: State.ASTRAY,
    ErrorCode.FENCED_LEADER_EPOCH: State.FAILED,  # There is a newer leader, of whom the controller will tell.
    ErrorCode.KAFKA_STORAGE_ERROR: State.DELAYED,
}


class Position(NamedTuple):
    """Where a fetch asks from: the log's end, and the epochs that say whether it is the leader's log."""

    leader_epoch: int
    offset: int
    last_epoch: int


class EpochEnd(NamedTuple):
    """An epoch, and where it ends in some log."""

    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Cut:
    """Remove every record from ``offset`` on."""

    offset: int


@dataclass(frozen=True, slots=True)
class Restart:
    """Remove everything, and begin at ``offset``."""

    offset: int


class Place:
    """One partition under one leader epoch."""

    __slots__ = ("_failures", "_resumes_as", "backoff_ms_max", "due_ms", "position", "state")

    def __init__(self, position: Position, backoff_ms_max: int) -> None:
        self.position = position
        self.state = State.FETCHING
        self.backoff_ms_max = backoff_ms_max
        #: When a delay ends.
        self.due_ms = 0
        self._failures = 0
        self._resumes_as = State.FETCHING

    def is_answered_by(self, asked: Position | None) -> bool:
        """Whether an answer to ``asked`` still concerns us: not after the log or its leader has changed."""
        return self.state is State.FETCHING and asked == self.position

    def moved(self, offset: int, last_epoch: int) -> bool:
        """The log ends there now; whether that is anywhere else than before."""
        position = Position(self.position.leader_epoch, offset, last_epoch)
        has_moved = position != self.position
        self.position = position
        if has_moved:
            self._failures = 0
        return has_moved

    def refused(self, code: ErrorCode, now_ms: int) -> None:
        """The leader refused the fetch."""
        state = AFTER_REFUSAL.get(code, State.DELAYED)
        if state is State.DELAYED:
            self.delay(now_ms)
        else:
            self._enter(state)

    def delay(self, now_ms: int) -> None:
        """Try again after a while."""
        self._resumes_as = self.state
        self._enter(State.DELAYED)
        self.due_ms = now_ms + min(BACKOFF_MS << min(self._failures, 16), self.backoff_ms_max)
        self._failures += 1

    def pause(self, now_ms: int, pause_ms: int) -> None:
        """Go on after this long; nothing has failed."""
        self._resumes_as = self.state
        self._enter(State.DELAYED)
        self.due_ms = now_ms + pause_ms

    def resume(self, now_ms: int) -> bool:
        """Whether the delay is over; if so it is left."""
        if self.state is not State.DELAYED or now_ms < self.due_ms:
            return False
        self._enter(self._resumes_as)
        return True

    def fail(self) -> None:
        """Nothing more can be done under this leader epoch."""
        if self.state is not State.FAILED:
            self._enter(State.FAILED)

    def bounded(self, leader_start: int, leader_end: int) -> Cut | Restart | None:
        """What to do, now that it is known where the leader's log begins and ends."""
        self._enter(State.FETCHING)
        own_end = self.position.offset
        if leader_end < own_end:
            return Cut(leader_end)  # Whether the rest is the leader's log, the next fetch will tell.
        return Restart(leader_start) if leader_start > own_end else None

    def _enter(self, state: State) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state} cannot become {state}"
        self.state = state


def cut_for(leaders: EpochEnd, own: EpochEnd, own_end: int) -> Cut:
    """Where to cut a log that left the leader's: ``leaders`` is what the leader has of the epoch that was last here.

    ``own`` is the greatest epoch in this log that is not above the leader's, and where it ends here.  If it is the
    same one, the logs agree up to where the shorter of the two ends.  If not, the leader has never heard of ours: all
    of it may be a dead end, so the log is cut to the end of ``own``, and the next fetch asks about that one.
    """
    if own.epoch == leaders.epoch:
        return Cut(min(own.end_offset, leaders.end_offset, own_end))
    if own.epoch == NO_EPOCH:
        return Cut(min(leaders.end_offset, own_end))
    return Cut(min(own.end_offset, own_end))
