"""Producing with a producer's id: batches that may be sent again without doubling, and transactions that anyone who
knows them may end."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from millstream.client.cluster import Cluster, StaleMetadata, check, error_of
from millstream.client.coordinators import NOT_YET, Coordinators, Kind
from millstream.client.partitions import (
    ACKS_ALL,
    NO_OFFSET,
    Produced,
    produce_request,
    produced_row,
    version_by_name_or_id,
)
from millstream.client.transactions import Transaction, describe_transaction
from millstream.model.batch import NO_PRODUCER_ID
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from millstream.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from millstream.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from millstream.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from millstream.protocol.messages.produce import ProduceRequest, ProduceResponse

#: From these versions on, a produce adds its partition to the transaction, and InitProducerId knows two phases.
IMPLICIT_FROM = 12
TWO_PHASE_FROM = 6
#: The newest version of AddPartitionsToTxn that clients speak.
_ADD_PARTITIONS_VERSION = 3

#: The transaction before is still being ended, or the id is asked for by two at once: soon it will do.
_BUSY = frozenset({ErrorCode.CONCURRENT_TRANSACTIONS})
#: What a leader answers when the same batch, sent again later, may do.
_AGAIN = NOT_YET | frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
    }
)


class ProducerId(NamedTuple):
    """What a producer goes by."""

    id: int
    epoch: int


async def init_producer_id(
    coordinators: Coordinators, transactional_id: str, *, timeout_ms: int, is_two_phase: bool = False
) -> ProducerId:
    """An id and epoch for transactions; whoever had the transactional id is fenced, and its transaction aborted.

    A two-phase transaction has no time-out; UNSUPPORTED_VERSION from a broker that does not know them.
    """
    if is_two_phase and not await knows_two_phase(coordinators, transactional_id):
        raise ProtocolError(ErrorCode.UNSUPPORTED_VERSION, "the broker knows no two-phase transactions")
    answer = await coordinators.ask(
        Kind.TRANSACTION,
        transactional_id,
        InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=timeout_ms, enable_2pc=is_two_phase
        ),
        InitProducerIdResponse,
        lambda answer: [answer.error_code],
        again_on=_BUSY,
    )
    check(answer.error_code, f"transactional id {transactional_id!r}")
    return ProducerId(answer.producer_id, answer.producer_epoch)


async def idempotent_producer_id(cluster: Cluster) -> ProducerId:
    """An id for a producer without transactions."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
    answer = await cluster.retrying([], lambda: cluster.ask(request, InitProducerIdResponse))
    check(answer.error_code, "a producer's id")
    return ProducerId(answer.producer_id, answer.producer_epoch)


async def knows_two_phase(coordinators: Coordinators, transactional_id: str) -> bool:
    """Whether the id's coordinator speaks of two-phase transactions."""
    node = await coordinators.find(Kind.TRANSACTION, transactional_id)
    connection = await coordinators.cluster.broker_at(node.address)
    return connection.version_for(InitProducerIdRequest) >= TWO_PHASE_FROM


async def end_transaction(
    coordinators: Coordinators, transactional_id: str, producer: ProducerId, *, is_commit: bool
) -> ProducerId | None:
    """Commit or abort; the same word said again is taken for the same. ProtocolError when it cannot be had.

    Returns what the producer goes by in its next transaction; None from a coordinator that leaves it as it was.
    """
    answer = await coordinators.ask(
        Kind.TRANSACTION,
        transactional_id,
        EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            committed=is_commit,
        ),
        EndTxnResponse,
        lambda answer: [answer.error_code],
        again_on=_BUSY,
    )
    check(answer.error_code, f"transactional id {transactional_id!r}")
    return ProducerId(answer.producer_id, answer.producer_epoch) if answer.producer_id != NO_PRODUCER_ID else None


async def list_open(coordinators: Coordinators, pattern: str) -> dict[str, int]:
    """Transactional ids with open transactions, and the producer id of each; where brokers know patterns only those
    that match the whole of it.
    """
    request = ListTransactionsRequest(state_filters=["Ongoing"], transactional_id_pattern=pattern)
    answers = await coordinators.ask_every_broker(request, ListTransactionsResponse, lambda answer: answer.error_code)
    return {row.transactional_id: row.producer_id for answer in answers.values() for row in answer.transaction_states}


async def standings(coordinators: Coordinators, ids: Iterable[str]) -> Mapping[str, Transaction]:
    """Where each id stands, without those that no coordinator knows."""

    async def standing(name: str) -> Transaction | None:
        try:
            return await describe_transaction(coordinators, name)
        except ProtocolError as refusal:
            if refusal.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise
            return None

    found = await asyncio.gather(*map(standing, dict.fromkeys(ids)))
    return {each.id: each for each in found if each is not None}


async def produce_as(
    coordinators: Coordinators,
    tp: TopicPartition,
    records: bytes | bytearray,
    producer: ProducerId,
    transactional_id: str | None = None,
) -> Produced:
    """Append a batch that carries its producer's id and sequence number, as often as it takes: it is there once."""
    cluster = coordinators.cluster

    async def attempt() -> Produced:
        connection = await cluster.leader(tp)
        topic = await cluster.topic(tp.topic)
        version = version_by_name_or_id(connection, ProduceRequest, topic.id)
        if transactional_id is not None and version < IMPLICIT_FROM:
            await add_partition(coordinators, transactional_id, producer, tp)
        request = produce_request(tp, topic.id, records, ACKS_ALL, int(cluster.timeout_s * 1000))
        request.transactional_id = transactional_id
        answer = await connection.call(request, ProduceResponse, version=version, timeout_s=cluster.timeout_s)
        code = error_of(answer.responses[0].partition_responses[0].error_code)
        if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            return Produced(NO_OFFSET)  # It is there from an attempt that was not answered.
        if code in _AGAIN:
            raise StaleMetadata(code, f"partition {tp}")
        return produced_row(answer, tp)

    return await cluster.retrying([tp.topic], attempt)


async def add_partition(
    coordinators: Coordinators, transactional_id: str, producer: ProducerId, tp: TopicPartition
) -> None:
    """Let the partition belong to the open transaction, where a produce does not do that by itself."""

    def codes(answer: AddPartitionsToTxnResponse) -> list[int]:
        return [
            row.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for row in topic.results_by_partition
        ]

    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=tp.topic, partitions=[tp.partition])],
    )
    answer = await coordinators.ask(
        Kind.TRANSACTION,
        transactional_id,
        request,
        AddPartitionsToTxnResponse,
        codes,
        again_on=_BUSY,
        version_max=_ADD_PARTITIONS_VERSION,
    )
    for code in codes(answer):
        check(code, f"partition {tp}, transactional id {transactional_id!r}")
