"""Transactions as an administrator sees them: listed, described, and ended when their producers will not."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from millstream.client.cluster import Cluster, check, check_partition, error_of
from millstream.client.coordinators import Coordinators, Kind, Node
from millstream.client.groups import by_topic
from millstream.client.partitions import by_leader
from millstream.client.wire import Connection
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from millstream.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from millstream.protocol.messages.describe_transactions import TransactionState as TransactionRow
from millstream.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from millstream.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from millstream.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

#: States in which a transaction is open, or on its way to its end.
OPEN_STATES = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
#: The time-out a fenced id is left with: long enough for any broker, shorter than any broker's most.
FENCED_TIMEOUT_MS = 60_000


@dataclass(slots=True)
class Transaction:
    """Where a transactional id stands; what a listing does not say is None until it is described."""

    id: str
    producer_id: int
    state: str
    coordinator: Node
    producer_epoch: int | None = None
    timeout_ms: int | None = None
    #: When the open transaction began.
    start_ms: int | None = None
    partitions: list[TopicPartition] = field(default_factory=list)


class Producer(NamedTuple):
    """A producer that a partition knows; -1 where there is nothing to say."""

    partition: TopicPartition
    id: int
    epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    #: The first offset of its transaction, while one is open here.
    open_since_offset: int


class Fenced(NamedTuple):
    """What a fenced transactional id has now."""

    producer_id: int
    producer_epoch: int


async def list_transactions(coordinators: Coordinators) -> list[Transaction]:
    """Every transactional id of the cluster; open transactions are described too."""
    answers = await coordinators.ask_every_broker(
        ListTransactionsRequest(), ListTransactionsResponse, lambda answer: answer.error_code
    )
    listings = [
        [
            Transaction(row.transactional_id, row.producer_id, row.transaction_state, node)
            for row in answer.transaction_states
        ]
        for node, answer in answers.items()
    ]
    await asyncio.gather(*(_describe_open(coordinators.cluster, listing) for listing in listings))
    return sorted((each for listing in listings for each in listing), key=lambda each: each.id)


async def _describe_open(cluster: Cluster, listing: Sequence[Transaction]) -> None:
    """Ask the broker that listed them; one that ended or moved meanwhile is left as it was listed."""
    open_ones = {each.id: each for each in listing if each.state in OPEN_STATES}
    if not open_ones:
        return
    connection = await cluster.broker_at(listing[0].coordinator.address)
    answer = await connection.call(
        DescribeTransactionsRequest(transactional_ids=list(open_ones)),
        DescribeTransactionsResponse,
        timeout_s=cluster.timeout_s,
    )
    for row in answer.transaction_states:
        if not row.error_code:
            _fill(open_ones[row.transactional_id], row)


async def describe_transaction(coordinators: Coordinators, name: str) -> Transaction:
    """Where a transactional id stands; TRANSACTIONAL_ID_NOT_FOUND when no coordinator knows it."""
    answer = await coordinators.ask(
        Kind.TRANSACTION,
        name,
        DescribeTransactionsRequest(transactional_ids=[name]),
        DescribeTransactionsResponse,
        lambda answer: [row.error_code for row in answer.transaction_states],
    )
    [row] = answer.transaction_states
    if row.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise ProtocolError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"there is no transactional id {name!r}")
    check(row.error_code, f"transactional id {name!r}")
    node = await coordinators.find(Kind.TRANSACTION, name)
    return _fill(Transaction(name, row.producer_id, row.transaction_state, node), row)


def _fill(transaction: Transaction, row: TransactionRow) -> Transaction:
    transaction.state = row.transaction_state
    transaction.producer_epoch = row.producer_epoch
    transaction.timeout_ms = row.transaction_timeout_ms
    is_open = row.transaction_state in OPEN_STATES
    transaction.start_ms = row.transaction_start_time_ms if is_open and row.transaction_start_time_ms >= 0 else None
    transaction.partitions = sorted(
        TopicPartition(topic.topic, number) for topic in row.topics for number in topic.partitions
    )
    return transaction


async def fence(coordinators: Coordinators, name: str) -> Fenced:
    """Take the transactional id away from its producer: what it has open is aborted, what it sends is refused.

    Returns when the abort is done. An id that nobody used would be made by this; look first.
    """
    answer = await coordinators.ask(
        Kind.TRANSACTION,
        name,
        InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=FENCED_TIMEOUT_MS),
        InitProducerIdResponse,
        lambda answer: [answer.error_code],
        again_on=frozenset({ErrorCode.CONCURRENT_TRANSACTIONS}),
    )
    check(answer.error_code, f"transactional id {name!r}")
    return Fenced(answer.producer_id, answer.producer_epoch)


async def describe_producers(cluster: Cluster, partitions: Iterable[TopicPartition]) -> list[Producer]:
    """The producers that the partitions' leaders know, by partition and id."""
    wanted = list(partitions)

    async def ask(connection: Connection, led: list[TopicPartition]) -> DescribeProducersResponse:
        topics = [TopicRequest(name=name, partition_indexes=numbers) for name, numbers in by_topic(led).items()]
        request = DescribeProducersRequest(topics=topics)
        return await connection.call(request, DescribeProducersResponse, timeout_s=cluster.timeout_s)

    async def attempt() -> list[Producer]:
        leaders = await by_leader(cluster, wanted)
        answers = await asyncio.gather(*(ask(connection, led) for connection, led in leaders.items()))
        producers = []
        for answer in answers:
            for topic in answer.topics:
                for part in topic.partitions:
                    tp = TopicPartition(topic.name, part.partition_index)
                    check_partition(part.error_code, part.error_message or f"partition {tp}")
                    producers += [
                        Producer(
                            partition=tp,
                            id=row.producer_id,
                            epoch=row.producer_epoch,
                            last_sequence=row.last_sequence,
                            last_timestamp_ms=row.last_timestamp,
                            coordinator_epoch=row.coordinator_epoch,
                            open_since_offset=row.current_txn_start_offset,
                        )
                        for row in part.active_producers
                    ]
        return sorted(producers)

    return await cluster.retrying({tp.topic for tp in wanted}, attempt)


async def abort_in_partition(cluster: Cluster, producer: Producer) -> None:
    """Write the abort marker of a transaction that its coordinator has forgotten, at the partition's leader."""
    tp = producer.partition
    marker = WritableTxnMarker(
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=tp.topic, partition_indexes=[tp.partition])],
        coordinator_epoch=max(0, producer.coordinator_epoch),  # -1 until a first marker was written.
    )

    async def attempt() -> None:
        connection = await cluster.leader(tp)
        answer = await connection.call(
            WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse, timeout_s=cluster.timeout_s
        )
        row = answer.markers[0].topics[0].partitions[0]
        code = error_of(row.error_code)
        check_partition(code, f"partition {tp}, producer {producer.id}")

    await cluster.retrying([tp.topic], attempt)
