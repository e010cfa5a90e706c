"""One partition on this broker: its role, its log, and the watermark between what is written and what is shown.

Invariant: records at or above the high watermark are never given to a consumer, whatever they were acknowledged as.
"""

import logging
from collections.abc import Callable

from millstream.config.topic import TopicConfig
from millstream.metrics.traffic import TopicTraffic
from millstream.model.batch import NO_SEQUENCE, TRANSACTIONAL, BatchHeader, header_at
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition, Uuid
from millstream.model.records import ABORT, COMMIT, encode_marker
from millstream.model.slices import FileSlice
from millstream.model.workers import Workers
from millstream.replication import admission
from millstream.replication.leading import Leading, Pulse
from millstream.replication.purgatory import Purgatory
from millstream.replication.readers import Divergence, Watcher
from millstream.replication.role import Leadership, Part, Role
from millstream.storage.ahead import WriteAhead
from millstream.storage.log import AppendOutcome, Log
from millstream.storage.producer_state import EndMarker
from millstream.storage.verification import Verification

ALL_IN_SYNC = -1
NO_EPOCH = -1
#: From this transaction version on a marker's epoch is above that of its transaction's records (KIP-890).
EPOCH_BUMPED_FROM = 2

logger = logging.getLogger(__name__)


class Partition:
    """Appends as leader or follower, reads for consumers and followers, and moves the high watermark."""

    __slots__ = (
        "_is_tail_known",
        "_purgatory",
        "_watermark",
        "leader_watermark",
        "log",
        "on_in_sync",
        "role",
        "topic_id",
        "topic_partition",
        "traffic",
        "watchers",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        topic_id: Uuid,
        broker_id: int,
        log: Log | None,
        purgatory: Purgatory,
        high_watermark: int,
        traffic: TopicTraffic,
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.role = Role(broker_id)
        self.traffic = traffic
        #: None while the log's directory is offline.
        self.log = log
        #: Followers that are served from here.
        self.watchers: list[Watcher] = []
        #: Called when the in-sync set may have to change.
        self.on_in_sync: Callable[[Partition], None] = _ignore
        self._purgatory = purgatory
        self._watermark = high_watermark
        #: The leader's high watermark as it last told this follower, which may not have as much.
        self.leader_watermark = high_watermark
        #: Whether transactions that ended above the watermark are known; after a start they may not be.
        self._is_tail_known = False

    @property
    def high_watermark(self) -> int:
        return self._watermark

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction has ended, and how is known to every in-sync replica."""
        log, watermark = self.log, self._watermark
        unstable = None if log is None else log.producers.first_unstable_offset(watermark)
        if log is None or unstable is None or unstable >= watermark:
            return watermark
        return min(max(unstable, log.start_offset), watermark)  # What was removed is undecided no more.

    @property
    def is_offline(self) -> bool:
        """Whether the log's directory is."""
        return self.log is None or self.log.is_offline

    @property
    def config(self) -> TopicConfig:
        return self._log().config

    # Leadership.

    def follow(self, told: Leadership) -> ErrorCode:
        """Take the part the controller gives; a new leader notes where its epoch starts before it serves."""
        if self.role.is_stale(told):
            return ErrorCode.STALE_CONTROLLER_EPOCH
        log = self.log
        if log is not None:
            log.settle()  # In the part under which it was begun.
        if log is None or log.is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        is_new_epoch = self.role.follow(told, log.end_offset, self._now_ms(log))
        self._watermark = min(max(self._watermark, log.start_offset), log.end_offset)
        if self.role.part is Part.LEADER:
            if is_new_epoch:
                log.epochs.assign(told.leader_epoch, log.end_offset)
                if self.role.leading is not None:
                    log.epochs.rewrite()
            self._advance(log)
        else:
            log.epochs.truncate_from(log.end_offset)  # An epoch led here in which nothing was written never was.
        if not self._is_tail_known:
            self._learn_tail(log)
        self._changed()
        return ErrorCode.NONE

    def retire(self) -> None:
        """The replica is stopped; whoever waits on it is told."""
        if self.log is not None:
            self.log.settle()
        self.role.retire()
        self._changed()

    def _changed(self) -> None:
        """Whoever waits looks again, followers included."""
        self._purgatory.wake(self)
        for watcher in self.watchers:
            watcher.grew()

    def leader_log(self, current_leader_epoch: int = NO_EPOCH) -> Log:
        """The log, if this broker leads the partition under the epoch that the client knows."""
        if current_leader_epoch != NO_EPOCH:
            self._fence(current_leader_epoch)
        if self.role.part is not Part.LEADER:
            self._log()  # That its disk has failed says more than that it does not lead.
            raise ProtocolError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self._log()

    def settled_log(self) -> Log:
        """As ``leader_log``, for who decides on an append: with the batch in it that is being written."""
        log = self.leader_log()
        if log.ahead is not None:
            log.settle()
        return log

    def replica_log(self, current_leader_epoch: int = NO_EPOCH) -> Log:
        """The log, whether this broker leads the partition or follows: consumers may read from either."""
        if current_leader_epoch != NO_EPOCH:
            self._fence(current_leader_epoch)
        log = self._log()
        if self.role.part is Part.IDLE:
            raise ProtocolError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return log

    def _fence(self, current_leader_epoch: int) -> None:
        epoch = self.role.leadership.leader_epoch
        if current_leader_epoch < epoch:
            raise ProtocolError(ErrorCode.FENCED_LEADER_EPOCH)
        if current_leader_epoch > epoch:
            raise ProtocolError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    # Writing.

    def append(
        self,
        log: Log,
        records: memoryview,
        header: BatchHeader,
        acks: int,
        now_ms: int,
        guard: Verification | None = None,
    ) -> AppendOutcome:
        """Append one checked batch to the log led here, and show it as soon as every in-sync replica has it.

        A transactional batch is taken where its transaction is open, and one that begins it here under the ``guard``
        that ``begin_verification`` gave before the coordinator was asked.
        """
        role, traffic = self.role, self.traffic
        self._admit(log, header, acks, now_ms, guard)
        outcome = log.append(records, ((0, header),), role.leadership.leader_epoch, now_ms)
        traffic.produces.value += 1
        if not outcome.is_duplicate:
            traffic.bytes_in.value += len(records)
            traffic.messages_in.value += header.record_count
            if role.leading is not None:
                self._grew(role.leading, outcome.first_offset)
        self._advance(log)
        return outcome

    def write_ahead(
        self,
        log: Log,
        records: memoryview,
        header: BatchHeader,
        acks: int,
        now_ms: int,
        guard: Verification | None,
        take_in: Callable[[], None],
    ) -> WriteAhead | None:
        """Begin to append, as ``Log.write_ahead``; ``take_in`` calls ``append`` with the same arguments."""
        self._admit(log, header, acks, now_ms, guard)
        return log.write_ahead(records, header, self.role.leadership.leader_epoch, now_ms, take_in)

    def _admit(self, log: Log, header: BatchHeader, acks: int, now_ms: int, guard: Verification | None) -> None:
        """Refuse what may not be appended now, whatever the log says to it."""
        config = log.config
        if acks == ALL_IN_SYNC and len(self.role.others_in_sync) + 1 < config.min_insync_replicas:
            self._refuse_too_few(config.min_insync_replicas)
        if header.max_timestamp > now_ms + config.message_timestamp_after_max_ms:
            admission.refuse_newest(header, config, now_ms)
        if header.attributes & TRANSACTIONAL:
            log.producers.check_verified(header, guard)

    def append_internal(self, records: memoryview, now_ms: int, guard: Verification | None = None) -> AppendOutcome:
        """Append a batch of the broker's own coordinators; as for acks=all, enough replicas must be in sync.

        Whether a transactional one may begin its transaction here is checked only under a ``guard``.
        """
        log, header = self.settled_log(), header_at(records)
        if guard is not None:
            log.producers.check_verified(header, guard)
        return self._append_own(log, records, header, now_ms)

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        is_commit: bool,
        coordinator_epoch: int,
        now_ms: int,
        transaction_version: int = 0,
    ) -> AppendOutcome:
        """Append the control record that ends a producer's transaction here, whether or not one is open.

        It voids the guard that was given for it; not that of a later transaction, where epochs tell the two apart.
        """
        log = self.settled_log()
        marker = encode_marker(
            COMMIT if is_commit else ABORT,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=now_ms,
        )
        header = header_at(marker)
        is_bumped = transaction_version >= EPOCH_BUMPED_FROM
        log.producers.check_marker(header, EndMarker(is_commit, coordinator_epoch), is_bumped=is_bumped)
        following = log.producers.next_verification(header) if is_bumped else None
        outcome = self._append_own(log, memoryview(marker), header, now_ms)
        if following is not None:
            log.producers.resume_verification(producer_id, following)
        return outcome

    def _append_own(self, log: Log, records: memoryview, header: BatchHeader, now_ms: int) -> AppendOutcome:
        if len(self.role.others_in_sync) + 1 < log.config.min_insync_replicas:
            self._refuse_too_few(log.config.min_insync_replicas)
        outcome = log.append(records, ((0, header),), self.role.leadership.leader_epoch, now_ms, is_client=False)
        self.traffic.bytes_in.value += len(records)
        self.traffic.messages_in.value += header.record_count
        if self.role.leading is not None:
            self._grew(self.role.leading, outcome.first_offset)
        self._advance(log)
        log.producers.first_unstable_offset(self._watermark)  # Forgets what has ended, also where nobody reads.
        return outcome

    # Transactions that begin here.

    def needs_verification(self, header: BatchHeader) -> bool:
        """Whether a transactional batch would begin a transaction here, which the coordinator must agree to."""
        return not self.settled_log().producers.is_in_transaction(header.producer_id, header.producer_epoch)

    def begin_verification(self, header: BatchHeader, *, adds: bool = False) -> Verification:
        """The guard to append the batch under once the coordinator has agreed; a marker in between voids it.

        ``adds`` is for a producer that leaves it to us to have the partition added to its transaction.
        """
        return self.begin_verification_of(header.producer_id, header.producer_epoch, header.base_sequence, adds=adds)

    def begin_verification_of(
        self, producer_id: int, producer_epoch: int, sequence: int = NO_SEQUENCE, *, adds: bool = False
    ) -> Verification:
        """The same for a batch that is yet to be made: a coordinator's, which has no sequence."""
        log = self.settled_log()
        now_ms = log.directory.clock.now_ms()
        return log.producers.begin_verification(producer_id, producer_epoch, sequence, adds=adds, now_ms=now_ms)

    def _refuse_too_few(self, wanted: int) -> None:
        """As Kafka since 4.0, never ask for more replicas than the partition has."""
        in_sync, replicas = len(self.role.others_in_sync) + 1, len(self.role.leadership.replicas)
        if in_sync < min(wanted, replicas):
            raise ProtocolError(
                ErrorCode.NOT_ENOUGH_REPLICAS, f"{in_sync} in sync of {replicas}, min.insync.replicas is {wanted}"
            )

    async def flushed(self, workers: Workers) -> None:
        """Return once everything appended before the call is on disk, if the topic asks for that."""
        if self.log is not None and self.log.needs_flush:
            await self.log.flush_async(workers)

    @property
    def safe_offset(self) -> int:
        """Up to where nothing can be lost any more: it is replicated, and on disk if the topic asks for that."""
        log, watermark = self.log, self._watermark
        return watermark if log is None or not log.needs_flush else min(watermark, log.flusher.durable_offset)

    def is_settled(self, offset: int, term: int | None = None) -> bool:
        """Whether waiting on is pointless: everything below ``offset`` is replicated, or never will be by us.

        ``term`` is the role's at the append: whoever has followed since may hold other records at that offset.
        """
        is_deposed = self.role.part is not Part.LEADER if term is None else self.role.term != term
        return self._watermark >= offset or is_deposed

    def outcome_of(self, offset: int, term: int) -> ErrorCode:
        """What to tell a producer who waited for everything below ``offset`` to be replicated, and does no longer."""
        if self.role.term != term:
            return ErrorCode.KAFKA_STORAGE_ERROR if self.is_offline else ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self._watermark < offset:
            return ErrorCode.REQUEST_TIMED_OUT
        leading, log = self.role.leading, self.log
        if leading is not None and log is not None:
            least = min(log.config.min_insync_replicas, len(self.role.leadership.replicas))
            if leading.maximal_isr_size < least:
                return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    # Followers of this leader.

    def fetched_by(
        self,
        replica: int,
        fetch_offset: int,
        broker_epoch: int = -1,
        pulse: Pulse | None = None,
        start_offset: int = -1,
    ) -> None:
        """A follower whose log agrees with this one asks for what comes at ``fetch_offset``: it has all before."""
        log, leading = self._log(), self.role.leading
        follower = None if leading is None else leading.followers.get(replica)
        if leading is None or follower is None:
            # As Kafka: it may know of a reassignment that is yet to be told here.
            raise ProtocolError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"broker {replica} is no replica")
        if broker_epoch >= 0:
            if broker_epoch < follower.broker_epoch:
                raise ProtocolError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {replica} was started anew")
            follower.broker_epoch = broker_epoch
        if pulse is not None:
            follower.pulse = pulse
        if start_offset > follower.start:
            follower.start = start_offset
            self._purgatory.wake(self)
        follower.fetched(fetch_offset, log.end_offset, self._now_ms(log))
        if leading.may_join(replica, self._watermark):
            self.on_in_sync(self)
        self._advance(log)

    def in_sync_changed(self) -> None:
        """Another in-sync set was granted or refused, or another number has to be in sync: the watermark may move."""
        if self.role.part is Part.LEADER and self.log is not None and not self.log.is_offline:
            self._advance(self.log)
            self._purgatory.wake(self)

    def _grew(self, leading: Leading, end_before: int) -> None:
        for follower in leading.followers.values():
            follower.left_behind(end_before)
        for watcher in self.watchers:
            watcher.grew()

    # Following.

    def append_from_leader(self, records: memoryview) -> None:
        """Append what the leader sent, as it is."""
        assert self.role.part is Part.FOLLOWER
        self._log().append_as_follower(records)

    def heed(self, high_watermark: int, start_offset: int) -> None:
        """Take over the leader's high watermark and where its log starts, as far as this log reaches."""
        log = self._log()
        self.leader_watermark = high_watermark
        watermark = min(high_watermark, log.end_offset)
        if watermark > self._watermark:
            self._watermark = watermark
            log.producers.first_unstable_offset(watermark)  # Forgets what has ended.
            self._purgatory.wake(self)
        if start_offset > log.start_offset:
            log.advance_start(min(start_offset, self._watermark))

    def truncate_to(self, offset: int) -> None:
        """Forget records that the leader does not have; which those are, leader epochs have told."""
        log = self._log()
        if offset < self._watermark:
            logger.warning(
                "%s is cut to %d, below its high watermark %d", self.topic_partition, offset, self._watermark
            )
        log.truncate_to(offset)
        self._was_cut(log)

    def restart_at(self, offset: int) -> None:
        """Forget everything and begin at ``offset``, where the leader's log starts."""
        log = self._log()
        log.restart_at(offset)
        self._was_cut(log)

    def moved_to(self, log: Log) -> None:
        """The same records lie in another directory now."""
        self.log = log
        if self.role.part is Part.LEADER:
            log.epochs.assign(self.role.leadership.leader_epoch, log.end_offset)
        self._changed()

    def _was_cut(self, log: Log) -> None:
        self._watermark = max(min(self._watermark, log.end_offset), log.start_offset)
        self._learn_tail(log)
        self._purgatory.wake(self)

    def _learn_tail(self, log: Log) -> None:
        """Find transactions whose end the watermark has not passed: they hold back readers of committed records."""
        self._is_tail_known = True
        if self._watermark < log.end_offset:
            log.hold_back(self._watermark)

    def _now_ms(self, log: Log) -> int:
        return int(log.directory.clock.monotonic_s() * 1000)

    def delete_records(self, before_offset: int) -> int:
        """Move the log's start up to ``before_offset`` (-1: the high watermark); the new low watermark."""
        log = self.settled_log()
        if log.config.cleanup_compact and not log.config.cleanup_delete:
            raise ProtocolError(ErrorCode.POLICY_VIOLATION, "records of a topic that is only compacted stay")
        before_offset = self._watermark if before_offset == -1 else before_offset
        if not 0 <= before_offset <= self._watermark:
            raise ProtocolError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{before_offset} is above the high watermark")
        log.advance_start(before_offset)
        self._purgatory.wake(self)  # With what was removed, open transactions may have gone.
        for watcher in self.watchers:
            watcher.changed()
        return log.start_offset

    @property
    def low_watermark(self) -> int:
        """What lies before it is gone from every replica in sync."""
        log, leading = self._log(), self.role.leading
        return log.start_offset if leading is None else leading.low_watermark(log.start_offset)

    # Reading.

    def read(self, log: Log, offset: int, bytes_max: int, upper: int) -> FileSlice | None:
        """Batches from ``offset`` on and below ``upper``; None when there are none yet."""
        if offset >= upper:
            if offset > log.end_offset:
                raise ProtocolError(self._beyond(), f"{offset} is past the log's end {log.end_offset}")
            return None
        return log.read(offset, bytes_max, upper)

    def _beyond(self) -> ErrorCode:
        """What to call an offset past the end: a follower may only lag, and readers told otherwise start over."""
        is_leader = self.role.part is Part.LEADER
        return ErrorCode.OFFSET_OUT_OF_RANGE if is_leader else ErrorCode.OFFSET_NOT_AVAILABLE

    def divergence(self, fetch_offset: int, last_fetched_epoch: int) -> Divergence | None:
        """Where a follower must cut its log before it goes on, or a reader has lost its place, if so."""
        epoch, end_offset = self._log().epochs.end_offset_for(last_fetched_epoch)
        if end_offset < 0:
            raise ProtocolError(ErrorCode.OFFSET_OUT_OF_RANGE, f"epoch {last_fetched_epoch} is not known here")
        if epoch < last_fetched_epoch or end_offset < fetch_offset:
            return Divergence(epoch, end_offset)
        return None

    def _advance(self, log: Log) -> None:
        leading = self.role.leading
        watermark = log.end_offset
        if leading is not None:
            watermark = leading.high_watermark(self._watermark, watermark, log.config.min_insync_replicas)
        if watermark != self._watermark:
            self._watermark = watermark
            self._purgatory.wake(self)
            for watcher in self.watchers:
                watcher.changed()

    def _log(self) -> Log:
        if self.log is None or self.log.is_offline:
            raise ProtocolError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {self.topic_partition} is offline"
            )
        return self.log


def _ignore(partition: Partition) -> None:
    """Nobody wants to know."""
