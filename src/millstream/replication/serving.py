"""What followers fetch from here: sessions that know which of their partitions have news, and look at no others.

A follower names a partition whenever it stands elsewhere than before.  In between, the partition itself tells its
watchers that it grew, so that a fetch costs what has changed, however many partitions the session has.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import NamedTuple

from millstream.config.setting import LONG_MAX
from millstream.config.topic import throttles
from millstream.metrics.throttle import Throttle
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import ZERO_UUID
from millstream.model.slices import FileSlice
from millstream.protocol.messages.fetch import EpochEndOffset, LeaderIdAndEpoch, PartitionData
from millstream.replication.fetch_sessions import EPOCH_MAX, FINAL_EPOCH, FULL_EPOCH, NO_SESSION, Key, Wanted
from millstream.replication.leading import Pulse
from millstream.replication.partition import Partition
from millstream.replication.replicas import Replicas
from millstream.replication.trail import Trail
from millstream.storage.log import Log

#: Refusals that tell a follower to wait for word from the controller.
LOST = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


class Found(NamedTuple):
    """Records for a follower, and the row they answer."""

    partition: Partition
    log: Log
    offset: int
    records: FileSlice
    row: PartitionData
    trail: Trail


#: Rows of an answer, and the records in them.
News = tuple[dict[Key, PartitionData], dict[Key, Found]]


class Standing:
    """One partition in a follower's session; the partition tells it of its changes."""

    __slots__ = ("is_moved", "key", "partition", "session", "trail", "wanted")

    def __init__(self, session: "FollowerSession", key: Key, wanted: Wanted) -> None:
        self.session = session
        self.key = key
        self.wanted = wanted
        #: Whether the follower stands elsewhere than when it was last looked at.
        self.is_moved = True
        self.partition: Partition | None = None
        self.trail = Trail()

    def grew(self) -> None:
        self.session.pending[self.key] = self
        self.session.wake()

    def changed(self) -> None:
        self.session.pending[self.key] = self
        if self.session.is_eager:
            self.session.wake()

    def watch(self, partition: Partition | None) -> None:
        """Be told of this partition's changes from now on."""
        if partition is not self.partition:
            if self.partition is not None:
                self.partition.watchers.remove(self)
            self.partition = partition
            if partition is not None:
                partition.watchers.append(self)


class FollowerSession:
    """One fetcher of one follower."""

    def __init__(self, id_: int, replica_id: int, broker_epoch: int, is_gone: Callable[[], bool]) -> None:
        self.id = id_
        self.epoch = 1
        self.replica_id = replica_id
        self.broker_epoch = broker_epoch
        #: Whether nobody can ask for this session any more.
        self.is_gone = is_gone
        self.pulse = Pulse()
        #: Whether the follower is to hear of watermarks at once, for consumers read from it.
        self.is_eager = False
        self.standings: dict[Key, Standing] = {}
        #: Those with something to tell, maybe.
        self.pending: dict[Key, Standing] = {}
        #: Until then something is held back from it.
        self.held_until_ms = 0
        self._waiter: asyncio.Future[bool] | None = None

    def begin(self, broker_epoch: int, now_ms: int) -> None:
        """A fetch has come, from the follower as it is registered now."""
        self.pulse.ms = now_ms
        if broker_epoch != self.broker_epoch:  # Each partition is to know, whether it is named or not.
            self.broker_epoch = broker_epoch
            for standing in self.standings.values():
                standing.is_moved = True
            self.pending.update(self.standings)

    def name(self, key: Key, wanted: Wanted) -> None:
        """The follower stands there."""
        standing = self.standings.get(key)
        if standing is None:
            standing = self.standings[key] = Standing(self, key, wanted)
        else:
            standing.wanted = wanted  # With what was told forgotten: it may have made nothing of the last answer.
            standing.is_moved = True
        self.pending[key] = standing

    def forget(self, key: Key) -> None:
        standing = self.standings.pop(key, None)
        if standing is not None:
            standing.watch(None)
            self.pending.pop(key, None)

    def mark(self, key: Key) -> None:
        """Look at the partition again."""
        if key in self.standings:
            self.pending[key] = self.standings[key]

    def close(self) -> None:
        """Watch nothing any more; whoever waits is answered."""
        for key in list(self.standings):
            self.forget(key)
        self.supersede()

    # Waiting.

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(True)

    def supersede(self) -> None:
        """The follower has asked anew before it was answered: what is there is told with the newer answer."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(False)

    async def wait(self, timeout_ms: int) -> bool:
        """Return when a partition grew or the time is over; False when a newer fetch has come."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[bool] = loop.create_future()
        self._waiter = waiter
        timer = loop.call_later(timeout_ms / 1000, self._expire, waiter)
        try:
            return await waiter
        finally:
            timer.cancel()
            if self._waiter is waiter:
                self._waiter = None

    @staticmethod
    def _expire(waiter: asyncio.Future[bool]) -> None:
        if not waiter.done():
            waiter.set_result(True)


class Serving:
    """Every follower's sessions, and what they find."""

    def __init__(
        self,
        replicas: Replicas,
        new_id: Callable[[], int],
        now_ms: Callable[[], int],
        throttle: Throttle | None = None,
    ) -> None:
        """``throttle`` is for what topics name, sent to followers that still catch up."""
        self._replicas = replicas
        self._throttle = throttle or Throttle(lambda: LONG_MAX)
        self._new_id = new_id
        self._now_ms = now_ms
        self._sessions: dict[int, FollowerSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def session(
        self, session_id: int, epoch: int, replica_id: int, broker_epoch: int, is_gone: Callable[[], bool]
    ) -> FollowerSession:
        """The session this fetch belongs to, made, moved on or ended as its epoch says."""
        if epoch in (FULL_EPOCH, FINAL_EPOCH):
            self._close(session_id)
            session = FollowerSession(NO_SESSION, replica_id, broker_epoch, is_gone)
            if epoch == FULL_EPOCH:
                self._open(session)
        else:
            known = self._sessions.get(session_id)
            if known is None or known.replica_id != replica_id:
                raise ProtocolError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"no session {session_id}")
            if epoch != known.epoch:
                raise ProtocolError(ErrorCode.INVALID_FETCH_SESSION_EPOCH, f"epoch {epoch}, not {known.epoch}")
            session = known
            session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
            session.supersede()
        session.begin(broker_epoch, self._now_ms())
        return session

    def _open(self, session: FollowerSession) -> None:
        for known in list(self._sessions.values()):
            if known.is_gone():
                self._close(known.id)
        while session.id == NO_SESSION or session.id in self._sessions:
            session.id = self._new_id()
        self._sessions[session.id] = session

    def _close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()

    # Reading.

    async def fetch(self, session: FollowerSession, bytes_max: int, min_bytes: int, max_wait_ms: int) -> News:
        """What is new; with too little of it, wait for more until the time is over or a newer fetch has come."""
        rows, found = self.read(session, bytes_max)
        deadline_ms = self._now_ms() + max_wait_ms
        while (left_ms := deadline_ms - self._now_ms()) > 0 and not _is_enough(rows, found, min_bytes):
            if rows and session.is_eager:
                break
            held_ms = session.held_until_ms - self._now_ms()
            if not await session.wait(min(left_ms, held_ms) if held_ms > 0 else left_ms):
                break
            for key in found:  # Too little so far: read again from the same place on.
                session.mark(key)
            more, more_found = self.read(session, bytes_max)
            rows |= more
            found |= more_found
        return rows, found

    def read(self, session: FollowerSession, bytes_max: int) -> News:
        """The rows that say something new, and the records in them; what does not fit waits for the next fetch."""
        rows: dict[Key, PartitionData] = {}
        found: dict[Key, Found] = {}
        left, pending = bytes_max, session.pending
        for key, standing in list(pending.items()):
            if left <= 0 and found and not standing.is_moved:
                continue
            del pending[key]
            row = self._row(session, standing, left, found)
            records = row.records
            if records:
                left -= len(records)
            is_news = standing.wanted.is_news(
                has_records=bool(records),
                error=row.error_code != 0 or row.diverging_epoch is not None,
                high_watermark=row.high_watermark,
                log_start_offset=row.log_start_offset,
            )
            if is_news:
                rows[key] = row
        return rows, found

    def _row(self, session: FollowerSession, standing: Standing, left: int, found: dict[Key, Found]) -> PartitionData:
        key, partition = standing.key, None
        try:
            name = self._replicas.topic_name(key.topic_id) if key.topic_id != ZERO_UUID else key.topic
            partition = self._replicas.find(name, key.partition)
            standing.watch(partition)
            return self._read(session, standing, partition, left, found)
        except ProtocolError as refusal:
            standing.is_moved = False
            row = PartitionData(partition_index=key.partition, error_code=refusal.code, high_watermark=-1, records=b"")
            if partition is None:
                standing.watch(None)
            elif refusal.code in LOST:
                leadership = partition.role.leadership
                row.current_leader = LeaderIdAndEpoch(leader_id=leadership.leader, leader_epoch=leadership.leader_epoch)
            return row

    def _read(
        self, session: FollowerSession, standing: Standing, partition: Partition, left: int, found: dict[Key, Found]
    ) -> PartitionData:
        wanted = standing.wanted
        log = partition.leader_log(wanted.current_leader_epoch)
        divergence = None
        if standing.is_moved and wanted.last_fetched_epoch >= 0:
            divergence = partition.divergence(wanted.fetch_offset, wanted.last_fetched_epoch)
        if divergence is None and standing.is_moved:
            if not log.start_offset <= wanted.fetch_offset <= log.end_offset:
                raise ProtocolError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{wanted.fetch_offset} is not in the log")
            # Only now, for a follower that has something else at its end has not got what is here.
            partition.fetched_by(
                session.replica_id, wanted.fetch_offset, session.broker_epoch, session.pulse, wanted.log_start_offset
            )
        standing.is_moved = False
        row = PartitionData(
            partition_index=standing.key.partition,
            high_watermark=partition.high_watermark,
            log_start_offset=log.start_offset,
            records=b"",
        )
        if divergence is not None:
            row.diverging_epoch = EpochEndOffset(epoch=divergence.epoch, end_offset=divergence.end_offset)
        elif self._is_held_back(session, standing, partition, log):
            session.pending[standing.key] = standing
        elif left > 0 or not found:
            records = log.read(wanted.fetch_offset, max(0, min(wanted.bytes_max, left)), log.end_offset)
            if records is not None and (records.length <= left or not found):
                row.records = records
                if _is_throttled(session, partition, log):
                    self._throttle.spend(records.length, self._now_ms())
                found[standing.key] = Found(partition, log, wanted.fetch_offset, records, row, standing.trail)
            elif records is not None:
                session.pending[standing.key] = standing
        elif wanted.fetch_offset < log.end_offset:
            session.pending[standing.key] = standing
        return row

    def _is_held_back(self, session: FollowerSession, standing: Standing, partition: Partition, log: Log) -> bool:
        """Whether there is more for the follower, which it must not have yet; it is looked at again in time."""
        if standing.wanted.fetch_offset >= log.end_offset or not _is_throttled(session, partition, log):
            return False
        now_ms = self._now_ms()
        wait_ms = self._throttle.wait_ms(now_ms)
        if wait_ms > 0:
            session.held_until_ms = now_ms + wait_ms
        return wait_ms > 0


def _is_throttled(session: FollowerSession, partition: Partition, log: Log) -> bool:
    named = log.config.leader_replication_throttled_replicas
    return (
        throttles(named, partition.topic_partition.partition, partition.role.broker_id)
        and session.replica_id not in partition.role.leadership.isr
    )


def _is_enough(rows: Mapping[Key, PartitionData], found: Mapping[Key, Found], min_bytes: int) -> bool:
    """Whether there is no reason to wait: enough bytes, or something the follower must hear of at once."""
    if sum(len(each.records) for each in found.values()) >= min_bytes:
        return True
    return any(row.error_code or row.diverging_epoch is not None for row in rows.values())


def grouped(rows: Mapping[Key, PartitionData]) -> dict[tuple[str, bytes], list[PartitionData]]:
    """Rows by their topics, as an answer holds them."""
    topics: dict[tuple[str, bytes], list[PartitionData]] = {}
    for key, row in rows.items():
        topics.setdefault((key.topic, key.topic_id), []).append(row)
    return topics
