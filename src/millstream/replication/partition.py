"""One partition on this broker: its role, its log, and the watermark between what is written and what is shown.

Invariant: records at or above the high watermark are never given to a consumer, whatever they were acknowledged as.
"""

from typing import NamedTuple

from millstream.config.topic import TopicConfig
from millstream.metrics.traffic import TopicTraffic
from millstream.model.batch import NO_SEQUENCE, TRANSACTIONAL, BatchHeader, header_at
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition, Uuid
from millstream.model.records import ABORT, COMMIT, encode_marker
from millstream.model.slices import FileSlice
from millstream.model.workers import Workers
from millstream.replication import admission
from millstream.replication.purgatory import Purgatory
from millstream.replication.role import Leadership, Part, Role
from millstream.storage.log import AppendOutcome, Log
from millstream.storage.producer_state import EndMarker
from millstream.storage.verification import Verification

ALL_IN_SYNC = -1
NO_EPOCH = -1
#: From this transaction version on a marker's epoch is above that of its transaction's records (KIP-890).
EPOCH_BUMPED_FROM = 2


class ProducerRow(NamedTuple):
    """A producer's standing in the partition; -1 for what it does not have."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


class Divergence(NamedTuple):
    """The follower's log left the leader's at the end of this epoch."""

    epoch: int
    end_offset: int


class Partition:
    """Appends as leader, reads for consumers and followers, and moves the high watermark."""

    __slots__ = ("_purgatory", "_watermark", "log", "role", "topic_id", "topic_partition", "traffic")

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
        self._purgatory = purgatory
        self._watermark = high_watermark

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
    def config(self) -> TopicConfig:
        return self._log().config

    # Leadership.

    def follow(self, told: Leadership) -> ErrorCode:
        """Take the part the controller gives; a new leader notes where its epoch starts before it serves."""
        if self.role.is_stale(told):
            return ErrorCode.STALE_CONTROLLER_EPOCH
        log = self.log
        if log is None or log.is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        is_new_epoch = self.role.follow(told)
        self._watermark = min(max(self._watermark, log.start_offset), log.end_offset)
        if self.role.part is Part.LEADER:
            if is_new_epoch:
                log.epochs.assign(told.leader_epoch, log.end_offset)
            self._advance(log)
        self._purgatory.wake(self)
        return ErrorCode.NONE

    def retire(self) -> None:
        """The replica is stopped; whoever waits on it is told."""
        self.role.retire()
        self._purgatory.wake(self)

    def leader_log(self, current_leader_epoch: int = NO_EPOCH) -> Log:
        """The log, if this broker leads the partition under the epoch that the client knows."""
        if self.role.part is not Part.LEADER:
            self._log()  # That its disk has failed says more than that it does not lead.
            raise ProtocolError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if current_leader_epoch != NO_EPOCH:
            epoch = self.role.leadership.leader_epoch
            if current_leader_epoch < epoch:
                raise ProtocolError(ErrorCode.FENCED_LEADER_EPOCH)
            if current_leader_epoch > epoch:
                raise ProtocolError(ErrorCode.UNKNOWN_LEADER_EPOCH)
        return self._log()

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
        config, role = log.config, self.role
        if acks == ALL_IN_SYNC and len(role.others_in_sync) + 1 < config.min_insync_replicas:
            self._refuse_too_few(config.min_insync_replicas)
        admission.check_newest(header, config, now_ms)
        if header.attributes & TRANSACTIONAL:
            log.producers.check_verified(header, guard)
        outcome = log.append(records, ((0, header),), role.leadership.leader_epoch, now_ms)
        traffic = self.traffic
        traffic.produces.value += 1
        if not outcome.is_duplicate:
            traffic.bytes_in.value += len(records)
            traffic.messages_in.value += header.record_count
        self._advance(log)
        return outcome

    def append_internal(self, records: memoryview, now_ms: int, guard: Verification | None = None) -> AppendOutcome:
        """Append a batch of the broker's own coordinators; as for acks=all, enough replicas must be in sync.

        Whether a transactional one may begin its transaction here is checked only under a ``guard``.
        """
        log, header = self.leader_log(), header_at(records)
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
        """Append the control record that ends a producer's transaction here, whether or not one is open."""
        log = self.leader_log()
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
        return self._append_own(log, memoryview(marker), header, now_ms)

    def _append_own(self, log: Log, records: memoryview, header: BatchHeader, now_ms: int) -> AppendOutcome:
        if len(self.role.others_in_sync) + 1 < log.config.min_insync_replicas:
            self._refuse_too_few(log.config.min_insync_replicas)
        outcome = log.append(records, ((0, header),), self.role.leadership.leader_epoch, now_ms, is_client=False)
        self.traffic.bytes_in.value += len(records)
        self.traffic.messages_in.value += header.record_count
        self._advance(log)
        log.producers.first_unstable_offset(self._watermark)  # Forgets what has ended, also where nobody reads.
        return outcome

    # Transactions that begin here.

    def needs_verification(self, header: BatchHeader) -> bool:
        """Whether a transactional batch would begin a transaction here, which the coordinator must agree to."""
        return not self.leader_log().producers.is_in_transaction(header.producer_id, header.producer_epoch)

    def begin_verification(self, header: BatchHeader, *, adds: bool = False) -> Verification:
        """The guard to append the batch under once the coordinator has agreed; a marker in between voids it.

        ``adds`` is for a producer that leaves it to us to have the partition added to its transaction.
        """
        return self.begin_verification_of(header.producer_id, header.producer_epoch, header.base_sequence, adds=adds)

    def begin_verification_of(
        self, producer_id: int, producer_epoch: int, sequence: int = NO_SEQUENCE, *, adds: bool = False
    ) -> Verification:
        """The same for a batch that is yet to be made: a coordinator's, which has no sequence."""
        log = self.leader_log()
        now_ms = log.directory.clock.now_ms()
        return log.producers.begin_verification(producer_id, producer_epoch, sequence, adds=adds, now_ms=now_ms)

    def producer_rows(self) -> list[ProducerRow]:
        """What is remembered of each producer."""
        return [
            ProducerRow(
                producer.producer_id,
                producer.epoch,
                producer.last_sequence,
                producer.last_timestamp,
                producer.coordinator_epoch,
                producer.txn_first_offset,
            )
            for producer in self.leader_log().producers
        ]

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
        log = self.log
        if log is None or not log.needs_flush:
            return self._watermark
        return min(self._watermark, log.flusher.durable_offset)

    def is_settled(self, offset: int) -> bool:
        """Whether waiting on is pointless: everything below ``offset`` is replicated, or never will be by us."""
        return self._watermark >= offset or self.role.part is not Part.LEADER

    def note_follower(self, replica: int, end_offset: int) -> None:
        """A follower asked for what comes at ``end_offset``: it has everything before."""
        self.role.note_end(replica, end_offset)
        self._advance(self._log())

    def delete_records(self, before_offset: int) -> int:
        """Move the log's start up to ``before_offset`` (-1: the high watermark); the new low watermark."""
        log = self.leader_log()
        if log.config.cleanup_compact and not log.config.cleanup_delete:
            raise ProtocolError(ErrorCode.POLICY_VIOLATION, "records of a topic that is only compacted stay")
        if before_offset == -1:
            before_offset = self._watermark
        if not 0 <= before_offset <= self._watermark:
            raise ProtocolError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{before_offset} is above the high watermark")
        log.advance_start(before_offset)
        self._purgatory.wake(self)  # With what was removed, open transactions may have gone.
        return log.start_offset

    # Reading.

    def read(self, log: Log, offset: int, bytes_max: int, upper: int) -> FileSlice | None:
        """Batches from ``offset`` on and below ``upper``; None when there are none yet."""
        if offset >= upper:
            if offset > log.end_offset:
                raise ProtocolError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is past the log's end {log.end_offset}")
            return None
        return log.read(offset, bytes_max, upper)

    def divergence(self, fetch_offset: int, last_fetched_epoch: int) -> Divergence | None:
        """Where a follower must cut its log before it goes on, if it must."""
        epoch, end_offset = self.leader_log().epochs.end_offset_for(last_fetched_epoch)
        if end_offset < 0:
            raise ProtocolError(ErrorCode.OFFSET_OUT_OF_RANGE, f"epoch {last_fetched_epoch} is not known here")
        if epoch < last_fetched_epoch or end_offset < fetch_offset:
            return Divergence(epoch, end_offset)
        return None

    def _advance(self, log: Log) -> None:
        watermark = self.role.high_watermark(self._watermark, log.end_offset)
        if watermark != self._watermark:
            self._watermark = watermark
            self._purgatory.wake(self)

    def _log(self) -> Log:
        if self.log is None or self.log.is_offline:
            raise ProtocolError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"the log directory of {self.topic_partition} is offline"
            )
        return self.log
