"""What a partition remembers of its producers: enough to refuse gaps, recognise repeats and fence zombies.

A pure machine: ``check`` decides about a batch, ``advance`` and ``complete`` record one that was appended.
"""

from collections.abc import Iterator
from typing import NamedTuple

from millstream.model.batch import (
    CONTROL,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    SEQUENCE_MASK,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
)
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.records import COMMIT, control_kind, coordinator_epoch, decode_batch
from millstream.storage.aborted_index import AbortedTransaction
from millstream.storage.verification import UNVERIFIED, Verification

#: Kafka's producers keep at most five batches in flight, so a repeat is one of the last five.
BATCHES_REMEMBERED = 5
NO_OFFSET = -1


class RememberedBatch(NamedTuple):
    """A batch of a producer that is in the log."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class Producer:
    """One producer id's standing in one partition."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "has_history",
        "last_timestamp",
        "producer_id",
        "txn_first_offset",
    )

    def __init__(self, producer_id: int, epoch: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        #: Oldest first; of the current epoch only.
        self.batches: list[RememberedBatch] = []
        self.coordinator_epoch = -1
        self.last_timestamp = NO_TIMESTAMP
        self.txn_first_offset = NO_OFFSET
        #: False while older batches of this producer may lie in the log unremembered (a snapshot keeps only one).
        self.has_history = True

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    def holds(self, header: BatchHeader) -> bool:
        """Whether the batch repeats one that is remembered; those of coordinators have no sequence, and never do."""
        if header.base_sequence == NO_SEQUENCE:
            return False
        sequences = (header.base_sequence, header.last_sequence)
        return header.producer_epoch == self.epoch and any(batch[:2] == sequences for batch in self.batches)

    def copy(self) -> "Producer":
        twin = Producer(self.producer_id, self.epoch)
        twin.batches = self.batches.copy()
        twin.coordinator_epoch = self.coordinator_epoch
        twin.last_timestamp = self.last_timestamp
        twin.txn_first_offset = self.txn_first_offset
        twin.has_history = self.has_history
        return twin

    def _enter_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
            self.has_history = True


class EndMarker(NamedTuple):
    """How a transaction ended, as the control record says."""

    is_commit: bool
    coordinator_epoch: int


class CompletedTransaction(NamedTuple):
    """A transaction whose marker is in the log, and what the index keeps of it if it was aborted."""

    entry: AbortedTransaction
    is_aborted: bool

    @property
    def first_offset(self) -> int:
        return self.entry.first_offset

    @property
    def last_offset(self) -> int:
        return self.entry.last_offset


class ProducerStates:
    """Every producer of one partition; ``end_offset`` is the first offset not yet taken in."""

    __slots__ = ("_by_id", "_completed", "_ongoing", "_verifying", "end_offset")

    def __init__(self, end_offset: int = 0) -> None:
        self.end_offset = end_offset
        self._by_id: dict[int, Producer] = {}
        #: First offset of each open transaction, to its producer; offsets only grow, so the first is the oldest.
        self._ongoing: dict[int, int] = {}
        #: Ended transactions that the high watermark may not have passed yet.
        self._completed: list[CompletedTransaction] = []
        #: Producers whose coordinator is being asked whether a transaction may begin here.
        self._verifying: dict[int, Verification] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Producer]:
        return iter(self._by_id.values())

    def get(self, producer_id: int) -> Producer | None:
        return self._by_id.get(producer_id)

    def put(self, producer: Producer) -> None:
        """Take over a producer that a snapshot kept."""
        self._by_id[producer.producer_id] = producer
        if producer.txn_first_offset != NO_OFFSET:
            is_last = not self._ongoing or next(reversed(self._ongoing)) < producer.txn_first_offset
            self._ongoing[producer.txn_first_offset] = producer.producer_id
            if not is_last:
                self._ongoing = dict(sorted(self._ongoing.items()))

    def draft(self) -> "ProducerStates":
        """A copy in which several batches of one request can be checked, each after the one before."""
        twin = ProducerStates(self.end_offset)
        twin._by_id = {producer_id: producer.copy() for producer_id, producer in self._by_id.items()}
        twin._ongoing = self._ongoing.copy()
        return twin

    def check(self, header: BatchHeader) -> RememberedBatch | None:
        """None when the batch may be appended; the batch already in the log when this one repeats it.

        An unknown producer may start at any sequence: its state may have expired.  A batch older than all that is
        remembered is DUPLICATE_SEQUENCE_NUMBER; the caller may know more of it from the log.
        """
        producer = self._by_id.get(header.producer_id)
        if producer is None:
            return None
        sequence = header.base_sequence
        if header.producer_epoch != producer.epoch:
            if header.producer_epoch < producer.epoch:
                raise ProtocolError(
                    ErrorCode.INVALID_PRODUCER_EPOCH,
                    f"producer {header.producer_id} has epoch {producer.epoch}, the batch {header.producer_epoch}",
                )
            if sequence > 0:
                raise ProtocolError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {header.producer_id} starts epoch {header.producer_epoch} at sequence {sequence}",
                )
        elif sequence != NO_SEQUENCE and producer.batches:
            last = producer.batches[-1].last_sequence
            if sequence != (last + 1) & SEQUENCE_MASK and last != NO_SEQUENCE:
                return self._repeat_of(header, producer, last)
        elif sequence > 0 and not producer.batches:
            raise self._out_of_order(header, NO_SEQUENCE)
        if producer.txn_first_offset != NO_OFFSET and not header.is_transactional:
            raise ProtocolError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has a transaction open since offset {producer.txn_first_offset}",
            )
        return None

    def _repeat_of(self, header: BatchHeader, producer: Producer, last: int) -> RememberedBatch:
        sequence, last_sequence = header.base_sequence, header.last_sequence
        for batch in producer.batches:
            if batch.first_sequence == sequence and batch.last_sequence == last_sequence:
                return batch
        # Sequences wrap, so what lies less than half the circle back is behind, the rest ahead.
        if (last - sequence) & SEQUENCE_MASK <= SEQUENCE_MASK // 2:
            raise ProtocolError(
                ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
                f"producer {header.producer_id} wrote sequence {sequence} long ago, and is at {last}",
            )
        raise self._out_of_order(header, last)

    def _out_of_order(self, header: BatchHeader, last: int) -> ProtocolError:
        return ProtocolError(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {header.producer_id} sent sequence {header.base_sequence} after {last}",
        )

    def check_marker(self, header: BatchHeader, marker: EndMarker, *, is_bumped: bool = False) -> None:
        """Refuse a marker of a fenced producer or of a coordinator that has been replaced.

        With transaction version 2 the marker's epoch ``is_bumped``: above that of the transaction's records.  One that
        is not belongs to an earlier transaction and must not end this one; with none open it is the same one again.
        """
        producer = self._by_id.get(header.producer_id)
        if producer is None:
            return
        is_late = is_bumped and header.producer_epoch == producer.epoch and producer.txn_first_offset != NO_OFFSET
        if is_late or header.producer_epoch < producer.epoch:
            raise ProtocolError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {header.producer_id} has epoch {producer.epoch}, the marker {header.producer_epoch}",
            )
        if marker.coordinator_epoch < producer.coordinator_epoch:
            raise ProtocolError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED, f"the coordinator has epoch {producer.coordinator_epoch}"
            )

    # Transactions that begin.

    def is_in_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether the producer has a transaction open here in that epoch."""
        producer = self._by_id.get(producer_id)
        return producer is not None and producer.txn_first_offset != NO_OFFSET and producer.epoch == epoch

    def begin_verification(
        self, producer_id: int, epoch: int, sequence: int, *, adds: bool, now_ms: int
    ) -> Verification:
        """The guard under which a batch may begin a transaction once the coordinator has agreed to it."""
        producer = self._by_id.get(producer_id)
        if producer is not None and epoch < producer.epoch:
            raise ProtocolError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} has epoch {producer.epoch}, the batch {epoch}",
            )
        verification = self._verifying.get(producer_id)
        if verification is None:
            verification = Verification(epoch, sequence, adds=adds, now_ms=now_ms)
            self._verifying[producer_id] = verification
        else:
            verification.widen(epoch, sequence)
        return verification

    def next_verification(self, header: BatchHeader) -> Verification | None:
        """The guard of a transaction after the one that this marker ends, whose epoch must be bumped.

        Such a marker ends what was written in lower epochs.  A question of its own epoch, or one above, is of another
        transaction, which has a marker of its own to come.
        """
        verification = self._verifying.get(header.producer_id)
        return None if verification is None or verification.epoch < header.producer_epoch else verification

    def resume_verification(self, producer_id: int, verification: Verification) -> None:
        """Let a guard count again that a marker has voided: it was not its own."""
        self._verifying[producer_id] = verification

    def check_verified(self, header: BatchHeader, guard: Verification | None) -> None:
        """Refuse a transactional batch that would begin a transaction its coordinator has not, or no longer, agreed to.

        A repeat of a batch in the log, and a batch of an old epoch, are left to ``check``.
        """
        producer = self._by_id.get(header.producer_id)
        if guard is UNVERIFIED or self.is_in_transaction(header.producer_id, header.producer_epoch):
            return
        if producer is not None and (header.producer_epoch < producer.epoch or producer.holds(header)):
            return
        if guard is None or self._verifying.get(header.producer_id) is not guard:
            raise ProtocolError(
                ErrorCode.INVALID_TXN_STATE, f"producer {header.producer_id} has no transaction open here"
            )
        is_new = producer is None or not producer.batches
        if header.base_sequence > guard.lowest_sequence or (guard.adds and is_new and header.base_sequence > 0):
            raise self._out_of_order(header, NO_SEQUENCE if producer is None else producer.last_sequence)

    # Recording what was appended.

    def take_in(
        self, header: BatchHeader, buffer: Buffer, at: int, first_offset: int, timestamp: int
    ) -> CompletedTransaction | None:
        """Record the batch at ``at`` in ``buffer``, which now lies in the log from ``first_offset`` on.

        The transaction that it ended, if it did.
        """
        if not header.attributes & CONTROL:
            self.advance(header, first_offset, timestamp)
            return None
        marker = end_marker(buffer, at)
        return None if marker is None else self.complete(header, marker, first_offset)

    def advance(self, header: BatchHeader, first_offset: int, timestamp: int) -> None:
        """Record a data batch that now lies in the log from ``first_offset`` on."""
        producer = self._by_id.get(header.producer_id)
        if producer is None:
            producer = self._by_id[header.producer_id] = Producer(header.producer_id, header.producer_epoch)
        elif producer.epoch != header.producer_epoch:
            producer._enter_epoch(header.producer_epoch)
        batches = producer.batches
        last_offset = first_offset + header.last_offset_delta
        batches.append(
            RememberedBatch(header.base_sequence, header.last_sequence, first_offset, last_offset, timestamp)
        )
        if len(batches) > BATCHES_REMEMBERED:
            del batches[0]
            producer.has_history = True
        producer.last_timestamp = timestamp
        if header.attributes & TRANSACTIONAL and producer.txn_first_offset == NO_OFFSET:
            producer.txn_first_offset = first_offset
            self._ongoing[first_offset] = header.producer_id
            self._verifying.pop(header.producer_id, None)
        self.end_offset = last_offset + 1

    def complete(self, header: BatchHeader, marker: EndMarker, offset: int) -> CompletedTransaction | None:
        """Record a marker that now lies in the log at ``offset``; the transaction it ended, if one was open."""
        producer = self._by_id.get(header.producer_id)
        if producer is None:
            producer = self._by_id[header.producer_id] = Producer(header.producer_id, header.producer_epoch)
        producer._enter_epoch(header.producer_epoch)
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp = header.max_timestamp
        self.end_offset = offset + header.last_offset_delta + 1
        self._verifying.pop(header.producer_id, None)
        first_offset, producer.txn_first_offset = producer.txn_first_offset, NO_OFFSET
        if first_offset == NO_OFFSET:
            return None
        self._ongoing.pop(first_offset, None)
        stable_offset = next(iter(self._ongoing), self.end_offset)
        entry = AbortedTransaction(header.producer_id, first_offset, offset, stable_offset)
        ended = CompletedTransaction(entry, not marker.is_commit)
        self._completed.append(ended)
        return ended

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Where the oldest transaction starts that is open, or ended by a marker not below ``high_watermark``."""
        if not self._ongoing and not self._completed:
            return None
        if self._completed:
            self._completed = [ended for ended in self._completed if ended.last_offset >= high_watermark]
        undecided = next(iter(self._ongoing), None)
        unreplicated = min((ended.first_offset for ended in self._completed), default=None)
        if undecided is None or unreplicated is None:
            return unreplicated if undecided is None else undecided
        return min(undecided, unreplicated)

    def hold_back(self, ended: list[CompletedTransaction]) -> None:
        """Remember transactions that the high watermark has not passed, which a snapshot does not tell of."""
        self._completed = ended

    def expire(self, now_ms: int, expiration_ms: int) -> None:
        """Forget producers that have been silent for ``expiration_ms``, unless a transaction of theirs is open."""
        gone = [
            producer.producer_id
            for producer in self._by_id.values()
            if producer.txn_first_offset == NO_OFFSET and now_ms - producer.last_timestamp >= expiration_ms
        ]
        for producer_id in gone:
            del self._by_id[producer_id]
        for producer_id, verification in list(self._verifying.items()):
            if now_ms - verification.begun_ms >= expiration_ms:
                del self._verifying[producer_id]

    def remember_older(self, producer_id: int, older: list[RememberedBatch]) -> None:
        """Put batches found in the log, oldest first, before the ones remembered."""
        producer = self._by_id[producer_id]
        producer.batches = (older + producer.batches)[-BATCHES_REMEMBERED:]
        producer.has_history = True

    def clear(self, end_offset: int) -> None:
        self._by_id.clear()
        self._ongoing.clear()
        self._completed.clear()
        self._verifying.clear()
        self.end_offset = end_offset


def end_marker(buffer: Buffer, at: int) -> EndMarker | None:
    """The marker in the control batch at ``at``; None when compaction has emptied the batch."""
    for record in decode_batch(buffer, at):
        return EndMarker(control_kind(record) == COMMIT, coordinator_epoch(record))
    return None
