"""Incremental fetches (KIP-227): a client names its partitions once and later only what changes.

A session also remembers what it last told of each partition, so that an answer names only those with news.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import Uuid

NO_SESSION = 0
FULL_EPOCH = 0
FINAL_EPOCH = -1
EPOCH_MAX = 2**31 - 1


class Key(NamedTuple):
    """A partition as the client named it: by topic name up to v12, by topic id since."""

    topic: str
    topic_id: Uuid
    partition: int


@dataclass(slots=True)
class Wanted:
    """Where the client stands in one partition, and what it was last told."""

    fetch_offset: int
    bytes_max: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    told_high_watermark: int = -1
    told_log_start_offset: int = -1
    told_error: bool = False

    def move_to(self, other: "Wanted") -> None:
        """Take over what the client says now; what it was told stays."""
        self.fetch_offset = other.fetch_offset
        self.bytes_max = other.bytes_max
        self.current_leader_epoch = other.current_leader_epoch
        self.last_fetched_epoch = other.last_fetched_epoch
        self.log_start_offset = other.log_start_offset

    def is_news(self, *, has_records: bool, error: bool, high_watermark: int, log_start_offset: int) -> bool:
        """Whether an incremental answer must name this partition; remembers that it was told."""
        news = (
            has_records
            or error
            or self.told_error
            or high_watermark != self.told_high_watermark
            or log_start_offset != self.told_log_start_offset
        )
        self.told_high_watermark = high_watermark
        self.told_log_start_offset = log_start_offset
        self.told_error = error
        return news


@dataclass(slots=True)
class Session:
    """One client's list of partitions, in the order they will be answered."""

    id: int
    used_ms: int
    epoch: int = 1
    partitions: dict[Key, Wanted] = field(default_factory=dict)

    def last_shall_be_first(self, key: Key) -> None:
        """A partition that gave records goes to the end, so that none starves behind it."""
        if key in self.partitions:  # Unless it was forgotten while the answer waited.
            self.partitions[key] = self.partitions.pop(key)


class View(NamedTuple):
    """The partitions one fetch is about; ``session`` is None where the client wants none."""

    session: Session | None
    is_full: bool
    partitions: dict[Key, Wanted]

    def items(self) -> Iterator[tuple[Key, Wanted]]:
        return iter(self.partitions.items())

    @property
    def session_id(self) -> int:
        return NO_SESSION if self.session is None else self.session.id


class FetchSessions:
    """The broker's bounded cache of sessions; the longest unused gives way once it has been idle long enough."""

    def __init__(self, slots: int, evictable_after_ms: int, new_id: Callable[[], int]) -> None:
        self._slots = slots
        self._evictable_after_ms = evictable_after_ms
        self._new_id = new_id
        self._sessions: dict[int, Session] = {}  # Longest unused first.

    def __len__(self) -> int:
        return len(self._sessions)

    def view(
        self,
        session_id: int,
        epoch: int,
        named: Iterable[tuple[Key, Wanted]],
        forgotten: Iterable[Key],
        now_ms: int,
    ) -> View:
        """What this fetch is about, its session made, moved on or ended as the epoch says."""
        if epoch in (FINAL_EPOCH, FULL_EPOCH):
            self._sessions.pop(session_id, None)
            partitions = dict(named)
            session = self._open(partitions, now_ms) if epoch == FULL_EPOCH else None
            return View(session, True, partitions)
        session = self._sessions.get(session_id)
        if session is None:
            raise ProtocolError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"no session {session_id}")
        if epoch != session.epoch:
            raise ProtocolError(ErrorCode.INVALID_FETCH_SESSION_EPOCH, f"epoch {epoch}, not {session.epoch}")
        self._touch(session, now_ms)
        for key in forgotten:
            session.partitions.pop(key, None)
        for key, wanted in named:
            known = session.partitions.get(key)
            if known is None:
                session.partitions[key] = wanted
            else:
                known.move_to(wanted)
        return View(session, False, session.partitions)

    def _touch(self, session: Session, now_ms: int) -> None:
        session.used_ms = now_ms
        session.epoch = 1 if session.epoch == EPOCH_MAX else session.epoch + 1
        self._sessions[session.id] = self._sessions.pop(session.id)

    def _open(self, partitions: dict[Key, Wanted], now_ms: int) -> Session | None:
        """A new session, or none when every slot is in use: the client then goes on with full fetches."""
        if not partitions:
            return None
        if len(self._sessions) >= self._slots:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now_ms - oldest.used_ms < self._evictable_after_ms:
                return None
            del self._sessions[oldest.id]
        session_id = self._new_id()
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._new_id()
        session = Session(session_id, now_ms, partitions=partitions)
        self._sessions[session_id] = session
        return session
