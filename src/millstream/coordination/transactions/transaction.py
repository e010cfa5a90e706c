"""A transactional id: its producer, and where its transaction stands.

Nothing here changes in place.  Each step gives the next transaction, whose record, replayed, makes it the one in force.
"""

from typing import Any, NamedTuple

from millstream.coordination.decision import Producer
from millstream.coordination.schemas.record import CoordinatorRecord
from millstream.coordination.schemas.transaction_state import PartitionsSchema, TransactionLogKey, TransactionLogValue
from millstream.coordination.transactions.states import ENDED, ENDING, TRANSITIONS, State
from millstream.model.ids import TopicPartition

NO_PRODUCER_ID = -1
NO_EPOCH = -1
NEVER_MS = -1
#: The last epoch a producer is given: the one above it is kept for the marker that fences it.
EPOCH_LAST = 32766
EPOCH_MAX = 32767
#: The time-out of a transaction that an outside coordinator ends (KIP-939): none.
NO_TIMEOUT_MS = 2**31 - 1
#: From this version of transactions on, the epoch rises with each transaction's end (KIP-890).
BUMPING = 2

NO_PARTITIONS: frozenset[TopicPartition] = frozenset()


class Transaction(NamedTuple):
    """What the log's last record of a transactional id says."""

    transactional_id: str
    #: Of the transaction under way: its partitions know the producer by these.
    producer_id: int
    producer_epoch: int
    #: What the producer's id was before the last step; only the last id of its own that ran out of epochs matters.
    previous_producer_id: int
    #: What the producer goes by meanwhile, where that is something else.
    next_producer_id: int
    next_producer_epoch: int
    timeout_ms: int
    state: State
    partitions: frozenset[TopicPartition]
    start_ms: int
    updated_ms: int
    #: The version of transactions that the producer spoke.
    version: int

    # Reading.

    @property
    def client(self) -> Producer:
        """What the producer goes by: requests under anything else are a zombie's, or late."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return Producer(self.next_producer_id, self.next_producer_epoch)
        return Producer(self.producer_id, self.producer_epoch)

    @property
    def is_kept(self) -> bool:
        """Whether the producer was initialised anew while its transaction goes on, so that it can only end it."""
        return self.state is State.ONGOING and self.next_producer_id != NO_PRODUCER_ID

    @property
    def has_timeout(self) -> bool:
        return self.timeout_ms != NO_TIMEOUT_MS

    @property
    def ended_as(self) -> Producer | None:
        """What the producer went by when the transaction ended, where the end gave it something else.

        A request under it is that same end, sent again.
        """
        if self.version < BUMPING or self.state not in ENDING | ENDED:
            return None
        producer_id, producer_epoch = self.client
        if producer_epoch == 0:
            return Producer(self.previous_producer_id, EPOCH_LAST)
        return Producer(producer_id, producer_epoch - 1)

    # Steps.

    def moved(self, state: State, now_ms: int, **changes: Any) -> "Transaction":
        """The same in another state, which must be one that may follow."""
        assert state in TRANSITIONS[self.state], f"{self.transactional_id}: {self.state.name} to {state.name}"
        return self._replace(state=state, updated_ms=now_ms, **changes)

    def initialised(self, producer: Producer, timeout_ms: int, now_ms: int) -> "Transaction":
        """Ready for the first transaction of a producer that goes by ``producer``."""
        return self.moved(
            State.EMPTY,
            now_ms,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            previous_producer_id=self.producer_id,
            timeout_ms=timeout_ms,
            partitions=NO_PARTITIONS,
            start_ms=NEVER_MS,
        )

    def kept(self, producer: Producer, timeout_ms: int, now_ms: int) -> "Transaction":
        """Going on as it is, to be ended by a producer that goes by ``producer``; never with less time than it had."""
        return self.moved(
            State.ONGOING,
            now_ms,
            next_producer_id=producer.producer_id,
            next_producer_epoch=producer.producer_epoch,
            timeout_ms=max(self.timeout_ms, timeout_ms),
        )

    def added(self, partitions: frozenset[TopicPartition], version: int, now_ms: int) -> "Transaction":
        """Begun, if it was not, and about to write to these partitions too."""
        return self.moved(
            State.ONGOING,
            now_ms,
            partitions=self.partitions | partitions,
            start_ms=self.start_ms if self.state is State.ONGOING else now_ms,
            version=version,
        )

    def fenced(self, now_ms: int) -> "Transaction":
        """About to be aborted by somebody other than its producer."""
        return self.moved(State.PREPARE_EPOCH_FENCE, now_ms)

    def decided(self, is_commit: bool, following: Producer | None, now_ms: int) -> "Transaction":
        """With its outcome, which the partitions are to be told.

        ``following`` is what the producer goes by afterwards; None (versions before 2) changes neither id nor epoch.
        """
        state = State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT
        start_ms = now_ms if self.start_ms == NEVER_MS else self.start_ms
        if following is None:
            return self.moved(state, now_ms, start_ms=start_ms, version=0)
        marker = Producer(self.producer_id, min(self.producer_epoch + 1, EPOCH_MAX))
        next_id, next_epoch = (NO_PRODUCER_ID, NO_EPOCH) if following == marker else following
        return self.moved(
            state,
            now_ms,
            producer_epoch=marker.producer_epoch,
            previous_producer_id=self.client.producer_id,
            next_producer_id=next_id,
            next_producer_epoch=next_epoch,
            start_ms=start_ms,
            version=BUMPING,
        )

    def completed(self, now_ms: int) -> "Transaction":
        """Ended in every partition."""
        client = self.client
        return self.moved(
            State.COMPLETE_COMMIT if self.state is State.PREPARE_COMMIT else State.COMPLETE_ABORT,
            now_ms,
            producer_id=client.producer_id,
            producer_epoch=client.producer_epoch,
            next_producer_id=NO_PRODUCER_ID,
            next_producer_epoch=NO_EPOCH,
            partitions=NO_PARTITIONS,
        )

    # In the log.

    def record(self) -> CoordinatorRecord:
        """The record that makes this the transaction in force."""
        return CoordinatorRecord(
            TransactionLogKey(self.transactional_id),
            TransactionLogValue(
                producer_id=self.producer_id,
                previous_producer_id=self.previous_producer_id,
                next_producer_id=self.next_producer_id,
                producer_epoch=self.producer_epoch,
                next_producer_epoch=self.next_producer_epoch,
                transaction_timeout_ms=self.timeout_ms,
                transaction_status=self.state,
                transaction_partitions=None if self.state is State.EMPTY else by_topic(self.partitions),
                transaction_last_update_timestamp_ms=self.updated_ms,
                transaction_start_timestamp_ms=self.start_ms,
                client_transaction_version=self.version,
            ),
        )

    def tombstone(self, now_ms: int) -> CoordinatorRecord:
        """The record that has it forgotten."""
        self.moved(State.DEAD, now_ms)
        return CoordinatorRecord(TransactionLogKey(self.transactional_id), None)


def new_transaction(transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
    """A transactional id nobody used before."""
    return Transaction(
        transactional_id,
        producer_id,
        producer_epoch=0,
        previous_producer_id=NO_PRODUCER_ID,
        next_producer_id=NO_PRODUCER_ID,
        next_producer_epoch=NO_EPOCH,
        timeout_ms=timeout_ms,
        state=State.EMPTY,
        partitions=NO_PARTITIONS,
        start_ms=NEVER_MS,
        updated_ms=now_ms,
        version=0,
    )


def recorded(transactional_id: str, value: TransactionLogValue) -> Transaction:
    """The transaction that a record tells of."""
    next_id, next_epoch = value.next_producer_id, value.next_producer_epoch
    if next_id != NO_PRODUCER_ID and next_epoch == NO_EPOCH:
        next_epoch = 0  # Kafka has a next id only where epochs ran out, and leaves its first epoch out.
    return Transaction(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        value.previous_producer_id,
        next_id,
        next_epoch,
        value.transaction_timeout_ms,
        State(value.transaction_status),
        frozenset(
            TopicPartition(group.topic, partition)
            for group in value.transaction_partitions or ()
            for partition in group.partition_ids
        ),
        value.transaction_start_timestamp_ms,
        value.transaction_last_update_timestamp_ms,
        value.client_transaction_version,
    )


def by_topic(partitions: frozenset[TopicPartition]) -> list[PartitionsSchema]:
    """The same partitions topic by topic, in order."""
    groups: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        groups.setdefault(topic, []).append(partition)
    return [PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in groups.items()]
