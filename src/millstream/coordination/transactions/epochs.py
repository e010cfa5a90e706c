"""Which producer a request comes from, and what it goes by next."""

from collections.abc import Callable

from millstream.coordination.decision import Producer
from millstream.coordination.transactions.transaction import EPOCH_LAST, Transaction
from millstream.model.errors import ErrorCode, ProtocolError

#: Every transactional id of a shard; changed by replay alone.
Transactions = dict[str, Transaction]
#: An id that no producer ever had, or the refusal that none is at hand.
NewProducerId = Callable[[], int]


def known(transactions: Transactions, transactional_id: str) -> Transaction:
    """The transaction of an id that was initialised."""
    if not transactional_id:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "a transactional id is not empty")
    found = transactions.get(transactional_id)
    if found is None:
        raise ProtocolError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"{transactional_id} was not initialised")
    return found


def check_producer(transaction: Transaction, producer_id: int, producer_epoch: int) -> None:
    """Refuse whoever is not the producer in force."""
    current_id, current_epoch = transaction.client
    if producer_id != current_id:
        raise ProtocolError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            f"the producer of {transaction.transactional_id} is {current_id}, not {producer_id}",
        )
    if producer_epoch != current_epoch:
        raise ProtocolError(
            ErrorCode.PRODUCER_FENCED,
            f"the epoch of {transaction.transactional_id} is {current_epoch}, not {producer_epoch}",
        )


def next_epoch(producer: Producer, new_producer_id: NewProducerId) -> Producer:
    """The producer under its next epoch, or under a new id when it has had the last."""
    if producer.producer_epoch >= EPOCH_LAST:
        return Producer(new_producer_id(), 0)
    return Producer(producer.producer_id, producer.producer_epoch + 1)
