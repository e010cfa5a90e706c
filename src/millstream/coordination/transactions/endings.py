"""How transactions end: the outcome is decided once, told to every partition, and then complete.

Invariant: only an ongoing transaction, or one to which nothing was added, is given an outcome; what was decided is
carried out, by whoever coordinates, for as long as it takes.
"""

from collections.abc import Callable, Sequence
from typing import Any

from millstream.coordination.decision import NOTHING, Decision, Producer, Question, Timer, reply
from millstream.coordination.transactions.epochs import NewProducerId, Transactions, check_producer, known, next_epoch
from millstream.coordination.transactions.events import MarkersDue, MarkersWritten, TransactionTimedOut, WriteMarkers
from millstream.coordination.transactions.states import ENDING, State
from millstream.coordination.transactions.transaction import Transaction
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

#: From this version on, EndTxn answers the epoch that follows (transaction version 2).
BUMPING_FROM_VERSION = 5
#: Markers that failed are tried again after this long, and twice as long each time.
RETRY_AFTER_MS = 50
RETRY_AFTER_MAX_MS = 5_000
#: Should nobody tell what became of an order, or the end not be written down, it is looked after by then.
LOOK_AFTER_MS = 10_000

#: The partition has the marker, has no need of it any more, or is gone with its topic.
DONE = frozenset({ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_PRODUCER_EPOCH})

#: The outcome that each of these states stands for.
IS_COMMIT = {
    State.PREPARE_COMMIT: True,
    State.COMPLETE_COMMIT: True,
    State.PREPARE_ABORT: False,
    State.COMPLETE_ABORT: False,
}


class Endings:
    """Decides outcomes and sees them through."""

    def __init__(
        self,
        transactions: Transactions,
        coordinator_epoch: int,
        new_producer_id: NewProducerId,
        report: Callable[[str], None],
    ) -> None:
        self._transactions = transactions
        self._coordinator_epoch = coordinator_epoch
        self._new_producer_id = new_producer_id
        self._report = report
        #: Partitions that do not have their marker yet, of transactions that are ending; without an entry, all.
        self._owed: dict[str, frozenset[TopicPartition]] = {}
        self._attempts: dict[str, int] = {}

    # Deciding.

    def end_txn(self, question: Question, now_ms: int) -> Decision:
        """Commit or abort; answered as soon as the outcome is safe, before the partitions know."""
        request: EndTxnRequest = question.request
        transaction = known(self._transactions, request.transactional_id)
        bumps = question.version >= BUMPING_FROM_VERSION
        if bumps and transaction.ended_as == (request.producer_id, request.producer_epoch):
            return _ended_before(question, transaction)
        check_producer(transaction, request.producer_id, request.producer_epoch)
        if transaction.state is State.ONGOING:
            following = self._following(transaction) if bumps or transaction.is_kept else None
            return self._decide(transaction, request.committed, following, now_ms, question)
        if not bumps:
            return _ended_before(question, transaction)
        if transaction.state in ENDING:
            raise ProtocolError(ErrorCode.CONCURRENT_TRANSACTIONS, "the transaction before has not ended everywhere")
        if request.committed:
            raise ProtocolError(ErrorCode.INVALID_TXN_STATE, "there is no transaction to commit")
        # To the producer it had begun, and whatever it may have sent for it is fenced by another epoch.
        return self._decide(transaction, False, self._following(transaction), now_ms, question)

    def abort(self, transaction: Transaction, now_ms: int, answers: Sequence[tuple[int, Any]] = ()) -> Decision:
        """Abort an ongoing transaction against its producer, which is fenced by an epoch it is not told."""
        following = self._following(transaction)
        decided = transaction.fenced(now_ms).decided(False, following, now_ms)
        return Decision(
            records=(decided.record(),),
            timers=(_look_after(decided, LOOK_AFTER_MS),),
            answers=answers,
            orders=(self._order(decided, decided.partitions),),
            is_pure=True,
        )

    def timed_out(self, event: TransactionTimedOut, now_ms: int) -> Decision:
        """Abort a transaction that took too long."""
        transaction = self._transactions.get(event.transactional_id)
        if transaction is None or transaction.state is not State.ONGOING or transaction.start_ms != event.start_ms:
            return NOTHING  # It ended in time, and the timer was left to run.
        if not transaction.has_timeout:
            return NOTHING  # It was kept since, for an outside coordinator.
        if transaction.timeout_ms > event.timeout_ms:
            return Decision(timers=(timeout_timer(transaction, now_ms),))  # It was kept since, with more time.
        self._report(f"the transaction of {event.transactional_id} took over {transaction.timeout_ms} ms: aborted")
        return self.abort(transaction, now_ms)

    def _decide(
        self, transaction: Transaction, is_commit: bool, following: Producer | None, now_ms: int, question: Question
    ) -> Decision:
        decided = transaction.decided(is_commit, following, now_ms)
        producer_id, producer_epoch = decided.client
        response = EndTxnResponse(producer_id=producer_id, producer_epoch=producer_epoch)
        if not decided.partitions:  # Nobody is to be told.
            return reply(question, response, (decided.record(), decided.completed(now_ms).record()))
        return Decision(
            records=(decided.record(),),
            timers=(_look_after(decided, LOOK_AFTER_MS),),
            answers=((question.ticket, response),),
            orders=(self._order(decided, decided.partitions),),
            is_pure=True,
        )

    def _following(self, transaction: Transaction) -> Producer:
        return next_epoch(transaction.client, self._new_producer_id)

    # Carrying out.

    def markers_written(self, event: MarkersWritten, now_ms: int) -> Decision:
        """Once every partition has its marker, the transaction is complete."""
        transaction = self._ending(event)
        if transaction is None:
            return NOTHING  # It is complete; this is an older order's echo.
        if ErrorCode.TRANSACTION_COORDINATOR_FENCED in event.results.values():
            return NOTHING  # Another broker coordinates now, and carries on.
        key = transaction.transactional_id
        done = {partition for partition, code in event.results.items() if code in DONE}
        owed = self._owed[key] = self._owed.get(key, transaction.partitions) - done
        if not owed:
            return Decision(records=(transaction.completed(now_ms).record(),), is_pure=True)
        attempts = self._attempts[key] = self._attempts.get(key, 0) + 1
        return Decision(timers=(_look_after(transaction, min(RETRY_AFTER_MS << attempts, RETRY_AFTER_MAX_MS)),))

    def markers_due(self, event: MarkersDue, now_ms: int) -> Decision:
        """Try again where a marker is missing."""
        transaction = self._ending(event)
        if transaction is None:
            return NOTHING
        owed = self._owed.get(transaction.transactional_id, transaction.partitions)
        return Decision(timers=(_look_after(transaction, LOOK_AFTER_MS),), orders=(self._order(transaction, owed),))

    def take_up(self, now_ms: int) -> Decision:
        """What the coordinator before left unfinished: outcomes to tell, time-outs to watch."""
        timers: list[Timer] = []
        orders: list[WriteMarkers] = []
        for transaction in self._transactions.values():
            if transaction.state in ENDING:
                timers.append(_look_after(transaction, LOOK_AFTER_MS))
                orders.append(self._order(transaction, transaction.partitions))
            elif transaction.state is State.ONGOING and transaction.has_timeout:
                timers.append(timeout_timer(transaction, now_ms))
        return Decision(timers=timers, orders=orders)

    def forget(self, transactional_id: str) -> None:
        """Nothing is owed any more: the transaction is complete, or the id gone."""
        self._owed.pop(transactional_id, None)
        self._attempts.pop(transactional_id, None)

    def stands(self, order: WriteMarkers) -> bool:
        """Whether the transaction still waits for these markers: they must not end the one that came after it."""
        transaction = self._ending(order)
        return transaction is not None and IS_COMMIT[transaction.state] is order.is_commit

    def _ending(self, event: MarkersWritten | MarkersDue | WriteMarkers) -> Transaction | None:
        """The transaction an event tells of, unless it is complete."""
        transaction = self._transactions.get(event.transactional_id)
        if transaction is None or transaction.state not in ENDING:
            return None
        is_same = event[1:3] == (transaction.producer_id, transaction.producer_epoch)
        return transaction if is_same else None

    def _order(self, transaction: Transaction, partitions: frozenset[TopicPartition]) -> WriteMarkers:
        return WriteMarkers(
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            IS_COMMIT[transaction.state],
            self._coordinator_epoch,
            transaction.version,
            partitions,
        )


def timeout_timer(transaction: Transaction, now_ms: int) -> Timer:
    """When an ongoing transaction is due; never called off, but moved by the next transaction.

    The clock of whoever saw it begin may be ahead of ours: nothing is left open for longer than it asked for.
    """
    left_ms = transaction.start_ms + transaction.timeout_ms - now_ms
    return Timer(
        ("timeout", transaction.transactional_id),
        min(max(left_ms, 0), transaction.timeout_ms),
        TransactionTimedOut(transaction.transactional_id, transaction.start_ms, transaction.timeout_ms),
    )


def _look_after(transaction: Transaction, after_ms: int) -> Timer:
    return Timer(("markers", transaction.transactional_id), after_ms, MarkersDue(*transaction[:3]))


def _ended_before(question: Question, transaction: Transaction) -> Decision:
    """The answer to an end that is in the log already: the same if it asks for the same."""
    request: EndTxnRequest = question.request
    if IS_COMMIT.get(transaction.state) is not request.committed:
        raise ProtocolError(
            ErrorCode.INVALID_TXN_STATE,
            f"{transaction.transactional_id} is in state {transaction.state.name}",
        )
    if transaction.state in ENDING:
        raise ProtocolError(ErrorCode.CONCURRENT_TRANSACTIONS, "the transaction has not ended everywhere")
    producer_id, producer_epoch = transaction.client
    return reply(question, EndTxnResponse(producer_id=producer_id, producer_epoch=producer_epoch))
