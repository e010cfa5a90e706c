"""Transactions (APIs 22 with a transactional id, 24 to 28, 65, 66).

Refusals are translated for clients of older versions, which do not know every code: a producer that was fenced was
once told that its epoch is invalid, and knows to give up or to begin anew by that.
"""

import asyncio
from collections.abc import Iterable

from millstream.broker.admissions import Question
from millstream.broker.broker import Broker
from millstream.broker.connection import Call
from millstream.broker.coordinators import GROUPS
from millstream.broker.markers import Marker
from millstream.config.transactions import TRANSACTION_PARTITION_VERIFICATION_ENABLE
from millstream.coordination.driver import CODES
from millstream.coordination.transactions.events import DescribeTransaction
from millstream.coordination.transactions.listing import unknown_states
from millstream.coordination.transactions.transaction import NO_EPOCH
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import CONSUMER_OFFSETS, INTERNAL_TOPICS, TopicPartition
from millstream.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from millstream.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from millstream.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from millstream.protocol.messages.describe_transactions import TransactionState as Description
from millstream.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from millstream.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from millstream.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from millstream.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from millstream.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from millstream.registry.tree import RegistryError

#: From these versions on, each API may answer PRODUCER_FENCED; before, it is INVALID_PRODUCER_EPOCH.
INIT_FENCED_FROM = 4
ADD_FENCED_FROM = 2
END_FENCED_FROM = 2
#: From these versions on, TRANSACTION_ABORTABLE; before, INVALID_TXN_STATE.
ADD_ABORTABLE_FROM = 5
OFFSETS_ABORTABLE_FROM = 4
#: From here on brokers ask, for several transactions at once.
ADD_BATCHED_FROM = 4
#: From here on TxnOffsetCommit adds its group to the transaction by itself (transaction version 2).
OFFSETS_ADD_FROM = 5
VERSION_1, VERSION_2 = 0, 2
#: What a TxnOffsetCommit is told where the group's log refused it, or the transaction's coordinator did not answer.
OFFSETS_CODES = CODES | {ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}


def _translated(code: ErrorCode, is_fenced_known: bool, is_abortable_known: bool = True) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED and not is_fenced_known:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and not is_abortable_known:
        return ErrorCode.INVALID_TXN_STATE
    return code


# Producers.


async def init_producer_id(broker: Broker, request: InitProducerIdRequest, call: Call) -> InitProducerIdResponse:
    """The producer of a transactional id; where a transaction must be aborted first and that is done at once, both."""
    assert request.transactional_id is not None
    try:
        await broker.producer_ids.stock()
        response: InitProducerIdResponse
        for _ in range(2):
            response = await broker.transactions.ask(request.transactional_id, request, call.version)
            if response.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                break
            await asyncio.sleep(0)  # The markers' turn.
    except ProtocolError as refusal:
        code = _translated(refusal.code, call.version >= INIT_FENCED_FROM)
        return InitProducerIdResponse(error_code=code, producer_epoch=NO_EPOCH)
    return response


# Partitions.


async def add_partitions(broker: Broker, request: AddPartitionsToTxnRequest, call: Call) -> AddPartitionsToTxnResponse:
    """A client adds partitions to its transaction; a broker also asks whether they are in one."""
    if call.version < ADD_BATCHED_FROM:
        asked = (
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
        )
        codes = await _added(broker, *asked, request.v3_and_below_topics, VERSION_1, call)
        rows = _topic_rows(request.v3_and_below_topics, codes, call.version)
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=rows)
    results = []
    for each in request.transactions:
        asked = (each.transactional_id, each.producer_id, each.producer_epoch)
        if each.verify_only:
            codes = await _verified(broker, Question(*asked, frozenset(_partitions(each.topics)), adds=False))
        else:
            codes = await _added(broker, *asked, each.topics, VERSION_2, call)
        rows = _topic_rows(each.topics, codes, call.version)
        results.append(AddPartitionsToTxnResult(transactional_id=each.transactional_id, topic_results=rows))
    return AddPartitionsToTxnResponse(results_by_transaction=results)


async def _verified(broker: Broker, question: Question) -> dict[TopicPartition, ErrorCode]:
    try:
        return await broker.transactions.admit_here(question)
    except ProtocolError as refusal:
        return dict.fromkeys(question.partitions, refusal.code)


async def _added(
    broker: Broker,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    topics: list[AddPartitionsToTxnTopic],
    version: int,
    call: Call,
) -> dict[TopicPartition, ErrorCode]:
    """Add all or none: where one cannot be, the others are not tried."""
    partitions = frozenset(_partitions(topics))
    refused = {each: code for each in partitions if (code := _refused(broker, each, call.connection.is_broker))}
    if refused:
        return dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED) | refused
    code = ErrorCode.NONE
    try:
        await broker.transactions.add(transactional_id, producer_id, producer_epoch, partitions, version)
    except ProtocolError as refusal:
        code = refusal.code
    return dict.fromkeys(partitions, code)


def _refused(broker: Broker, partition: TopicPartition, is_broker: bool) -> ErrorCode:
    """Why a client cannot write to the partition: it is a coordinator's own, or not there."""
    if partition.topic in INTERNAL_TOPICS and not is_broker:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic = broker.cluster.topics.get(partition.topic)
    is_there = topic is not None and partition.partition in topic.partitions
    return ErrorCode.NONE if is_there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]


def _topic_rows(
    topics: list[AddPartitionsToTxnTopic], codes: dict[TopicPartition, ErrorCode], version: int
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index,
                    partition_error_code=_translated(
                        codes[TopicPartition(topic.name, index)],
                        version >= ADD_FENCED_FROM,
                        version >= ADD_ABORTABLE_FROM,
                    ),
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


async def add_offsets(broker: Broker, request: AddOffsetsToTxnRequest, call: Call) -> AddOffsetsToTxnResponse:
    """The partition that keeps a group's offsets is added to the transaction like any other."""
    try:
        await broker.coordinators.ensure(GROUPS)  # A producer may come here before any member of the group.
        partition = TopicPartition(CONSUMER_OFFSETS, broker.groups.index_of(request.group_id))
        await broker.transactions.add(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            frozenset({partition}),
            VERSION_1,
        )
    except RegistryError:
        return AddOffsetsToTxnResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    except ProtocolError as refusal:
        return AddOffsetsToTxnResponse(error_code=_translated(refusal.code, call.version >= ADD_FENCED_FROM))
    return AddOffsetsToTxnResponse()


async def commit_offsets(broker: Broker, request: TxnOffsetCommitRequest, call: Call) -> TxnOffsetCommitResponse:
    """A group's offsets, to hold once the transaction commits; the transaction must have the group's partition."""
    try:
        partition = TopicPartition(CONSUMER_OFFSETS, broker.groups.index_of(request.group_id))
        adds = call.version >= OFFSETS_ADD_FROM
        guard = None
        if adds or broker.settings.config.get(TRANSACTION_PARTITION_VERIFICATION_ENABLE):
            producer = (request.producer_id, request.producer_epoch)
            # Begun before the coordinator is asked, so that the end of the transaction voids a commit it overtakes.
            guard = broker.groups.shard(partition.partition).partition.begin_verification_of(*producer, adds=adds)
            verdicts = await broker.transactions.admit(request.transactional_id, *producer, [partition], adds)
            if verdicts[partition]:
                raise ProtocolError(verdicts[partition])
        shard = broker.groups.shard(partition.partition)
        response: TxnOffsetCommitResponse = await shard.ask(
            request, call.version, call.header.client_id or "", f"/{call.connection.host}", guard
        )
    except ProtocolError as refusal:
        code = OFFSETS_CODES.get(refusal.code, refusal.code)
        code = _translated(code, False, call.version >= OFFSETS_ABORTABLE_FROM)
        return TxnOffsetCommitResponse(
            topics=[
                TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        TxnOffsetCommitResponsePartition(partition_index=row.partition_index, error_code=code)
                        for row in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )
    return response


# Ends.


async def end(broker: Broker, request: EndTxnRequest, call: Call) -> EndTxnResponse:
    """Commit or abort."""
    try:
        await broker.producer_ids.stock()
        response: EndTxnResponse = await broker.transactions.ask(request.transactional_id, request, call.version)
    except ProtocolError as refusal:
        return EndTxnResponse(error_code=_translated(refusal.code, call.version >= END_FENCED_FROM))
    return response


async def write_markers(broker: Broker, request: WriteTxnMarkersRequest, call: Call) -> WriteTxnMarkersResponse:
    """Another broker's coordinator has its transactions ended in the partitions led here."""
    results = []
    for each in request.markers:
        marker = Marker(
            each.producer_id,
            each.producer_epoch,
            each.transaction_result,
            each.coordinator_epoch,
            each.transaction_version,
        )
        partitions = [TopicPartition(topic.name, index) for topic in each.topics for index in topic.partition_indexes]
        codes = await broker.markers.write(marker, partitions)
        rows = [
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTxnMarkerPartitionResult(
                        partition_index=index, error_code=codes[TopicPartition(topic.name, index)]
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in each.topics
        ]
        results.append(WritableTxnMarkerResult(producer_id=each.producer_id, topics=rows))
    return WriteTxnMarkersResponse(markers=results)


# What there is.


async def describe(broker: Broker, request: DescribeTransactionsRequest, call: Call) -> DescribeTransactionsResponse:
    """Where each of these stands."""
    rows = []
    for transactional_id in request.transactional_ids:
        try:
            row = await broker.transactions.ask(transactional_id, DescribeTransaction(transactional_id))
        except ProtocolError as refusal:
            row = Description(transactional_id=transactional_id, error_code=refusal.code)
        rows.append(row)
    return DescribeTransactionsResponse(transaction_states=rows)


async def list_all(broker: Broker, request: ListTransactionsRequest, call: Call) -> ListTransactionsResponse:
    """Those coordinated here; none of them while some are still being loaded."""
    merged = ListTransactionsResponse(unknown_state_filters=unknown_states(request))
    for shard in broker.transactions.shards.shards():
        found: ListTransactionsResponse = await shard.ask(request, call.version, "", "")
        merged.transaction_states += found.transaction_states
    return merged
