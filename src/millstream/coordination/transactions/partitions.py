"""The partitions of a transaction: added by its producer, or asked for by the brokers that lead them."""

from millstream.coordination.decision import Decision, Question, Timer, reply
from millstream.coordination.transactions.endings import timeout_timer
from millstream.coordination.transactions.epochs import Transactions, check_producer, known
from millstream.coordination.transactions.events import AddPartitions, VerifyPartitions
from millstream.coordination.transactions.states import ENDING, State
from millstream.coordination.transactions.transaction import Transaction
from millstream.model.errors import ErrorCode, ProtocolError


class Partitions:
    """Lets partitions into transactions; the first begins one."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def add(self, question: Question, now_ms: int) -> Decision:
        """All of them or none."""
        request: AddPartitions = question.request
        transaction = self._open_to(request)
        if transaction.state is State.ONGOING and request.partitions <= transaction.partitions:
            return reply(question, True)
        added = transaction.added(request.partitions, request.version, now_ms)
        timers: tuple[Timer, ...] = ()
        if transaction.state is not State.ONGOING and added.has_timeout:
            timers = (timeout_timer(added, now_ms),)
        return Decision(records=(added.record(),), timers=timers, answers=((question.ticket, True),), is_pure=True)

    def verify(self, question: Question, now_ms: int) -> Decision:
        """Whether each is in the transaction: if not, the producer may abort, and go on."""
        request: VerifyPartitions = question.request
        partitions = self._open_to(request).partitions
        return reply(
            question,
            {
                each: ErrorCode.NONE if each in partitions else ErrorCode.TRANSACTION_ABORTABLE
                for each in request.partitions
            },
        )

    def _open_to(self, request: AddPartitions | VerifyPartitions) -> Transaction:
        transaction = known(self._transactions, request.transactional_id)
        check_producer(transaction, request.producer_id, request.producer_epoch)
        if transaction.state in ENDING:
            raise ProtocolError(ErrorCode.CONCURRENT_TRANSACTIONS, "the transaction before has not ended everywhere")
        if transaction.is_kept:
            raise ProtocolError(ErrorCode.INVALID_TXN_STATE, "a transaction that was kept can only be ended")
        return transaction
