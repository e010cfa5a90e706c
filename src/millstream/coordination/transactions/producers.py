"""InitProducerId with a transactional id: one producer in force, every other fenced."""

from collections.abc import Callable

from millstream.coordination.decision import Decision, Producer, Question, reply
from millstream.coordination.transactions.endings import Endings
from millstream.coordination.transactions.epochs import NewProducerId, Transactions, next_epoch
from millstream.coordination.transactions.settings import TransactionSettings
from millstream.coordination.transactions.states import ENDING, State
from millstream.coordination.transactions.transaction import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMEOUT_MS,
    Transaction,
    new_transaction,
)
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


class Producers:
    """Initialises producers, the first time and again."""

    def __init__(
        self,
        transactions: Transactions,
        endings: Endings,
        settings: Callable[[], TransactionSettings],
        new_producer_id: NewProducerId,
    ) -> None:
        self._transactions = transactions
        self._endings = endings
        self._settings = settings
        self._new_producer_id = new_producer_id
        #: What a producer that came back by itself went by before (KIP-360): the same request may be sent again.
        #: Soft: with another coordinator it is refused instead.
        self._came_back: dict[str, Producer] = {}

    def init_producer_id(self, question: Question, now_ms: int) -> Decision:
        """A producer's id and epoch; whatever its predecessor had under way is aborted first, or kept if so asked."""
        request: InitProducerIdRequest = question.request
        self._check(request)
        timeout_ms = NO_TIMEOUT_MS if request.enable_2pc else request.transaction_timeout_ms
        transaction = self._transactions.get(request.transactional_id or "")
        if transaction is None:
            assert request.transactional_id is not None
            made = new_transaction(request.transactional_id, self._new_producer_id(), timeout_ms, now_ms)
            return _initialised(question, made)
        claimed = _claimed(request)
        if transaction.state in ENDING:
            _check_id(transaction, claimed)
            raise ProtocolError(ErrorCode.CONCURRENT_TRANSACTIONS, "the transaction before has not ended everywhere")
        if transaction.state is not State.ONGOING:
            return _initialised(question, self._again(transaction, claimed, timeout_ms, now_ms))
        if claimed is not None and claimed != transaction.client:
            raise _fenced(transaction, claimed)
        if request.keep_prepared_txn:
            producer = next_epoch(transaction.client, self._new_producer_id)
            return _initialised(question, transaction.kept(producer, timeout_ms, now_ms))
        # The epoch this takes is nobody's; asked again, once the transaction has ended, a new one is given out.
        refusal = InitProducerIdResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS, producer_epoch=NO_EPOCH)
        return self._endings.abort(transaction, now_ms, answers=((question.ticket, refusal),))

    def forget(self, transactional_id: str) -> None:
        """The id is gone."""
        self._came_back.pop(transactional_id, None)

    def _check(self, request: InitProducerIdRequest) -> None:
        if not request.transactional_id:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, "a transactional id is not empty")
        if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
            raise ProtocolError(ErrorCode.INVALID_REQUEST, "a producer gives both its id and its epoch, or neither")
        settings = self._settings()
        if request.enable_2pc and not settings.transaction_two_phase_commit_enable:
            raise ProtocolError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transaction.two.phase.commit.enable is false"
            )
        timeout_ms, most_ms = request.transaction_timeout_ms, settings.transaction_max_timeout_ms
        if timeout_ms <= 0 or (timeout_ms > most_ms and not request.enable_2pc):
            raise ProtocolError(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT, f"{timeout_ms} ms is not between 1 and {most_ms}"
            )

    def _again(self, transaction: Transaction, claimed: Producer | None, timeout_ms: int, now_ms: int) -> Transaction:
        """No transaction is under way: the producer gets another epoch, unless it has it and only missed the answer."""
        transactional_id, current = transaction.transactional_id, transaction.client
        if claimed is None:
            self._came_back.pop(transactional_id, None)
        elif claimed == current:
            self._came_back[transactional_id] = claimed
        elif claimed == self._last(transaction):
            self._came_back[transactional_id] = claimed
            return transaction.initialised(current, timeout_ms, now_ms)
        else:
            raise _fenced(transaction, claimed)
        return transaction.initialised(next_epoch(current, self._new_producer_id), timeout_ms, now_ms)

    def _last(self, transaction: Transaction) -> Producer | None:
        """What the producer in force went by until it was given what it has."""
        if transaction.state is State.EMPTY:
            return self._came_back.get(transaction.transactional_id)
        return transaction.ended_as


def _claimed(request: InitProducerIdRequest) -> Producer | None:
    if request.producer_id == NO_PRODUCER_ID:
        return None
    return Producer(request.producer_id, request.producer_epoch)


def _check_id(transaction: Transaction, claimed: Producer | None) -> None:
    own = (transaction.producer_id, transaction.client.producer_id, transaction.previous_producer_id)
    if claimed is not None and claimed.producer_id not in own:
        raise _fenced(transaction, claimed)


def _fenced(transaction: Transaction, claimed: Producer) -> ProtocolError:
    return ProtocolError(
        ErrorCode.PRODUCER_FENCED,
        f"{transaction.transactional_id} has gone on from {tuple(claimed)} to {tuple(transaction.client)}",
    )


def _initialised(question: Question, transaction: Transaction) -> Decision:
    producer_id, producer_epoch = transaction.client
    response = InitProducerIdResponse(producer_id=producer_id, producer_epoch=producer_epoch)
    if transaction.is_kept:
        response.ongoing_txn_producer_id = transaction.producer_id
        response.ongoing_txn_producer_epoch = transaction.producer_epoch
    return reply(question, response, (transaction.record(),))
