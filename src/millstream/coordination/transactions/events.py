"""What the machine of transactions is asked by other parts of the broker, what it orders, and what it is told."""

from collections.abc import Mapping
from typing import NamedTuple

from millstream.model.errors import ErrorCode
from millstream.model.ids import TopicPartition

# Questions.  AddPartitionsToTxn and DescribeTransactions may ask for several ids, which shards answer one by one.


class AddPartitions(NamedTuple):
    """A transaction is about to write to these partitions; answered with True."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    #: Of transactions, as the client speaks it.
    version: int


class VerifyPartitions(NamedTuple):
    """Whether the transaction writes to these partitions; answered with a code for each."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]


class DescribeTransaction(NamedTuple):
    """Answered with its row of DescribeTransactions."""

    transactional_id: str


# Orders.


class WriteMarkers(NamedTuple):
    """Have the leaders of these partitions write how a producer's transaction ended."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    version: int
    partitions: frozenset[TopicPartition]


# Events.


class MarkersWritten(NamedTuple):
    """What became of an order, partition by partition; one that does not exist any more counts as done."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    results: Mapping[TopicPartition, ErrorCode]


class MarkersDue(NamedTuple):
    """Time to see whether a transaction has ended everywhere, and to try again where it has not."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class TransactionTimedOut(NamedTuple):
    """The transaction that began then has taken as long as it may."""

    transactional_id: str
    start_ms: int
    timeout_ms: int


class ExpireIds(NamedTuple):
    """Time to forget the transactional ids nobody uses."""
