"""One partition of ``__transaction_state`` as a state machine.

Invariant: a transactional id has one producer in force, by its id and epoch; epochs never go back, and each transaction
has one outcome.  What decides lies in the parts; here is only who answers what.
"""

from collections.abc import Callable
from typing import Any

from millstream.coordination.decision import Decision, Origin, Question, Timer
from millstream.coordination.schemas.record import CoordinatorRecord
from millstream.coordination.transactions.endings import Endings
from millstream.coordination.transactions.epochs import NewProducerId, Transactions
from millstream.coordination.transactions.events import (
    AddPartitions,
    DescribeTransaction,
    ExpireIds,
    MarkersDue,
    MarkersWritten,
    TransactionTimedOut,
    VerifyPartitions,
    WriteMarkers,
)
from millstream.coordination.transactions.listing import Listing
from millstream.coordination.transactions.partitions import Partitions
from millstream.coordination.transactions.producers import Producers
from millstream.coordination.transactions.settings import TransactionSettings
from millstream.coordination.transactions.states import ENDING, IDLE
from millstream.coordination.transactions.transaction import recorded
from millstream.protocol.messages.end_txn import EndTxnRequest
from millstream.protocol.messages.init_producer_id import InitProducerIdRequest
from millstream.protocol.messages.list_transactions import ListTransactionsRequest

#: How many ids are forgotten at once; the rest have their turn a little later.
EXPIRED_AT_ONCE = 500
EXPIRE_MORE_AFTER_MS = 10


class TransactionMachine:
    """The transactions of the ids that fall into this partition."""

    def __init__(
        self,
        coordinator_epoch: int,
        settings: Callable[[], TransactionSettings],
        new_producer_id: NewProducerId,
        report: Callable[[str], None],
    ) -> None:
        self.transactions: Transactions = {}
        self._settings = settings
        self._report = report
        self._endings = Endings(self.transactions, coordinator_epoch, new_producer_id, report)
        self._producers = Producers(self.transactions, self._endings, settings, new_producer_id)
        partitions, listing = Partitions(self.transactions), Listing(self.transactions)
        #: Who answers: by the type of a question's request, or of an event.
        self._handlers: dict[type, Callable[[Any, int], Decision]] = {
            InitProducerIdRequest: self._producers.init_producer_id,
            AddPartitions: partitions.add,
            VerifyPartitions: partitions.verify,
            EndTxnRequest: self._endings.end_txn,
            DescribeTransaction: listing.describe,
            ListTransactionsRequest: listing.list,
            MarkersWritten: self._endings.markers_written,
            MarkersDue: self._endings.markers_due,
            TransactionTimedOut: self._endings.timed_out,
            ExpireIds: self._expire,
        }

    def decide(self, event: Any, now_ms: int) -> Decision:
        """What to do about a question or an event."""
        kind = type(event.request) if type(event) is Question else type(event)
        return self._handlers[kind](event, now_ms)

    def replay(self, record: CoordinatorRecord, origin: Origin) -> None:
        """Take a transactional id's last record for the truth; one that makes no sense is reported and skipped."""
        transactional_id, value = record.key.transactional_id, record.value
        if value is None:
            self.transactions.pop(transactional_id, None)
            self._producers.forget(transactional_id)
            self._endings.forget(transactional_id)
            return
        try:
            transaction = recorded(transactional_id, value)
        except ValueError as fault:
            self._report(f"the record of {transactional_id} at offset {origin.offset} is skipped: {fault}")
            return
        self.transactions[transactional_id] = transaction
        if transaction.state not in ENDING:
            self._endings.forget(transactional_id)

    def replay_marker(self, producer_id: int, *, is_commit: bool) -> None:
        """Nobody writes to this topic within a transaction."""

    def stands(self, order: WriteMarkers) -> bool:
        """Whether markers that had to wait are still wanted."""
        return self._endings.stands(order)

    def loaded(self, now_ms: int) -> Decision:
        """Carry out what was decided, watch what goes on, and look for ids to forget from time to time."""
        left = self._endings.take_up(now_ms)
        return Decision(timers=[*left.timers, self._next_expiry()], orders=left.orders)

    def _expire(self, event: ExpireIds, now_ms: int) -> Decision:
        """Forget the ids that nobody used for long."""
        before_ms = now_ms - self._settings().transactional_id_expiration_ms
        expired = [each for each in self.transactions.values() if each.state in IDLE and each.updated_ms <= before_ms]
        timer = self._next_expiry()
        if len(expired) > EXPIRED_AT_ONCE:
            timer = timer._replace(after_ms=EXPIRE_MORE_AFTER_MS)
        return Decision(
            records=[each.tombstone(now_ms) for each in expired[:EXPIRED_AT_ONCE]], timers=(timer,), is_pure=True
        )

    def _next_expiry(self) -> Timer:
        interval_ms = self._settings().transaction_remove_expired_transaction_cleanup_interval_ms
        return Timer(("expiry",), interval_ms, ExpireIds())
