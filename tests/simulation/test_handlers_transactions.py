"""Transactions over the wire: both versions of them from init to read, refusals as each version knows them."""

import asyncio
from collections.abc import Iterable
from typing import Any
from unittest.mock import patch

import pytest

from millstream.broker.markers import Marker, Markers
from millstream.broker.transactions import Transactions
from millstream.model.errors import ErrorCode
from millstream.model.ids import TopicPartition
from millstream.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from millstream.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from millstream.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from millstream.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from millstream.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from millstream.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.simulation.asking import create, simulate
from tests.simulation.broker import SimBroker
from tests.simulation.network import SimNetwork
from tests.simulation.transactional_client import GROUP, TX, Client, with_client


def test_transactions_of_version_2_need_nothing_but_writes_and_an_end() -> None:
    async def scenario(client: Client, machine: SimBroker) -> None:
        await client.find(GROUP, 0)
        producer = await client.made()
        for committed, offset in ((True, 7), (False, 8), (True, 9)):
            for partition in (0, 1):
                assert await client.produce(producer, b"%d" % offset, partition) is ErrorCode.NONE
            assert await client.commit_offset(producer, offset) is ErrorCode.NONE
            following = await client.end(producer, committed)
            assert following == (producer[0], producer[1] + 1)
            producer = following
        for partition in (0, 1):
            assert await client.committed(partition) == [b"7", b"9"]
        assert await client.offset() == 9

    with_client(scenario)


@pytest.mark.parametrize("produce_version", [3, 11])
def test_transactions_of_version_1_add_everything_first(produce_version: int) -> None:
    async def scenario(client: Client, machine: SimBroker) -> None:
        producer = await client.made()
        for committed, offset in ((True, 7), (False, 8), (True, 9)):
            assert await client.add(producer, 0, 1) == [ErrorCode.NONE] * 2
            for partition in (0, 1):
                assert await client.produce(producer, b"%d" % offset, partition, produce_version) is ErrorCode.NONE
            assert await client.add_offsets(producer) is ErrorCode.NONE
            await client.find(GROUP, 0)
            assert await client.commit_offset(producer, offset, version=3) is ErrorCode.NONE
            assert await client.end(producer, committed, version=3) == (-1, -1)
        assert await client.committed() == [b"7", b"9"]
        assert await client.offset() == 9

    with_client(scenario)


def test_what_was_not_added_is_not_taken() -> None:
    async def scenario(client: Client, machine: SimBroker) -> None:
        await client.find(GROUP, 0)
        producer = await client.made()
        assert await client.produce(producer, b"x", version=11) is ErrorCode.TRANSACTION_ABORTABLE
        assert await client.produce(producer, b"x", version=10) is ErrorCode.INVALID_TXN_STATE
        assert await client.commit_offset(producer, 1, version=4) is ErrorCode.TRANSACTION_ABORTABLE
        assert await client.commit_offset(producer, 1, version=3) is ErrorCode.INVALID_TXN_STATE
        assert await client.offset() == -1

    with_client(scenario)


def test_what_was_not_added_is_taken_where_nobody_is_to_look() -> None:
    async def scenario(client: Client, machine: SimBroker) -> None:
        await client.find(GROUP, 0)
        producer = await client.made()
        assert await client.produce(producer, b"x", version=11) is ErrorCode.NONE
        assert await client.commit_offset(producer, 1, version=3) is ErrorCode.NONE

    with_client(scenario, transaction_partition_verification_enable="false")


def test_a_producer_that_follows_a_crashed_one_is_initialised_at_once() -> None:
    """What it left is aborted in the same turn, so nobody has to ask twice."""

    async def scenario(client: Client, machine: SimBroker) -> None:
        zombie = await client.made()
        await client.produce(zombie, b"lost")
        producer = await client.made()
        assert producer == (zombie[0], zombie[1] + 2)
        assert await client.produce(zombie, b"late") is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await client.produce(producer, b"kept") is ErrorCode.NONE
        assert await client.end(producer) == (producer[0], producer[1] + 1)
        assert await client.committed() == [b"kept"]

    with_client(scenario)


def test_a_fenced_producer_is_told_in_the_words_of_its_version() -> None:
    async def scenario(client: Client, machine: SimBroker) -> None:
        await client.find(GROUP, 0)
        zombie = await client.made()
        await client.made()
        fenced, invalid = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
        for version, code in ((3, invalid), (4, fenced), (6, fenced)):
            answer = await client.init(version, producer_id=zombie[0], producer_epoch=zombie[1])
            assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)
        for version, code in ((0, invalid), (1, invalid), (2, fenced), (3, fenced)):
            assert await client.add(zombie, 0, version=version) == [code]
            assert await client.add_offsets(zombie, version=version) is code
            assert await client.end(zombie, version=version) is code
        for version in (0, 3, 4, 5):
            assert await client.commit_offset(zombie, 1, version=version) is invalid

    with_client(scenario)


def test_a_partition_that_does_not_exist_keeps_the_others_out() -> None:
    async def scenario(client: Client, machine: SimBroker) -> None:
        producer = await client.made()
        missing, not_tried = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
        assert await client.add(producer, 0, 5) == [not_tried, missing]
        assert await client.add(producer, 0, topic="nothing") == [missing]

    with_client(scenario)


@pytest.mark.parametrize(
    ("version", "abortable"), [(4, ErrorCode.INVALID_TXN_STATE), (5, ErrorCode.TRANSACTION_ABORTABLE)]
)
def test_brokers_ask_for_several_transactions_at_once(version: int, abortable: ErrorCode) -> None:
    async def scenario(client: Client, machine: SimBroker) -> None:
        producer_id, epoch = await client.made()

        def asked(transactional_id: str, partition: int, verify_only: bool) -> AddPartitionsToTxnTransaction:
            return AddPartitionsToTxnTransaction(
                transactional_id=transactional_id,
                producer_id=producer_id,
                producer_epoch=epoch,
                verify_only=verify_only,
                topics=[AddPartitionsToTxnTopic(name="orders", partitions=[partition])],
            )

        request = AddPartitionsToTxnRequest(
            transactions=[asked(TX, 0, False), asked(TX, 0, True), asked(TX, 1, True), asked("unknown", 0, True)]
        )
        answer = await client.call(request, AddPartitionsToTxnResponse, version=version)
        codes = [
            result.topic_results[0].results_by_partition[0].partition_error_code
            for result in answer.results_by_transaction
        ]
        assert codes == [0, 0, abortable, ErrorCode.INVALID_PRODUCER_ID_MAPPING]

    with_client(scenario)


def test_transactions_are_described_and_listed() -> None:
    async def scenario(client: Client, machine: SimBroker) -> None:
        producer = await client.made()
        await client.add(producer, 0, 1)
        await client.made(transactional_id="idle")
        described = await client.call(
            DescribeTransactionsRequest(transactional_ids=[TX, "unknown", ""]), DescribeTransactionsResponse
        )
        codes = [row.error_code for row in described.transaction_states]
        assert codes == [0, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ErrorCode.INVALID_REQUEST]
        assert described.transaction_states[0].topics[0].partitions == [0, 1]
        for version in (0, 1, 2):
            listed = await client.call(ListTransactionsRequest(), ListTransactionsResponse, version=version)
            assert {row.transactional_id for row in listed.transaction_states} == {TX, "idle"}
        listed = await client.call(
            ListTransactionsRequest(state_filters=["Ongoing", "Odd"]), ListTransactionsResponse, version=2
        )
        assert [row.transactional_id for row in listed.transaction_states] == [TX]
        assert listed.unknown_state_filters == ["Odd"]
        refused = await client.call(
            ListTransactionsRequest(transactional_id_pattern="("), ListTransactionsResponse, version=2
        )
        assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION

    with_client(scenario)


def test_markers_are_written_for_another_brokers_coordinator() -> None:
    async def scenario(client: Client, machine: SimBroker) -> None:
        producer_id, epoch = await client.made()
        await client.produce((producer_id, epoch), b"x")
        marker = WritableTxnMarker(
            producer_id=producer_id,
            producer_epoch=epoch + 1,
            transaction_result=True,
            topics=[WritableTxnMarkerTopic(name="orders", partition_indexes=[0, 9])],
            coordinator_epoch=0,
            transaction_version=2,
        )
        request = WriteTxnMarkersRequest(markers=[marker])
        answer = await client.call(request, WriteTxnMarkersResponse, version=2)
        rows = answer.markers[0].topics[0].partitions
        assert [row.error_code for row in rows] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await client.committed() == [b"x"]

    with_client(scenario)


def test_a_transaction_that_takes_too_long_is_aborted_in_its_partitions() -> None:
    async def scenario(client: Client, machine: SimBroker) -> None:
        producer = await client.made(transaction_timeout_ms=1_000)
        await client.produce(producer, b"slow")
        await asyncio.sleep(1.1)
        assert await client.produce(producer, b"slower") is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await client.end(producer) is ErrorCode.INVALID_TXN_STATE
        assert await client.committed() == []

    with_client(scenario)


@pytest.mark.parametrize("is_killed", [False, True])
def test_transactions_survive_a_restart(is_killed: bool) -> None:
    async def scenario(client: Client, machine: SimBroker) -> None:
        await client.find(GROUP, 0)
        producer = await client.made(transaction_timeout_ms=5_000)
        await client.produce(producer, b"kept")
        await client.commit_offset(producer, 3)
        following = await client.end(producer)
        assert isinstance(following, tuple)
        await client.produce(following, b"open")
        await client.commit_offset(following, 4)
        await (machine.crash(power=False) if is_killed else machine.stop())
        await machine.start()
        client = Client(await machine.connect())
        await asyncio.sleep(0.5)
        assert await client.end(producer) is ErrorCode.PRODUCER_FENCED
        assert await client.committed() == [b"kept"]
        await asyncio.sleep(5)
        assert await client.end(following) is ErrorCode.INVALID_TXN_STATE, "timed out meanwhile"
        assert await client.committed() == [b"kept"]
        assert await client.offset() == 3
        producer = await client.made()
        assert await client.produce(producer, b"new") is ErrorCode.NONE
        assert isinstance(await client.end(producer), tuple)
        assert await client.committed() == [b"kept", b"new"]

    with_client(scenario)


def test_a_prepared_transaction_survives_a_restart_and_is_committed_by_its_heir() -> None:
    async def scenario(client: Client, machine: SimBroker) -> None:
        producer = await client.made(version=6, enable_2pc=True)
        await client.produce(producer, b"prepared")
        await machine.crash(power=False)
        await machine.start()
        await asyncio.sleep(3_600)
        client = Client(await machine.connect())
        answer = await client.init(6, enable_2pc=True, keep_prepared_txn=True)
        assert (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch) == producer
        heir = (answer.producer_id, answer.producer_epoch)
        assert await client.end(heir) == (heir[0], heir[1] + 1)
        assert await client.committed() == [b"prepared"]

    with_client(scenario)


@pytest.mark.parametrize("committed", [True, False])
def test_an_outcome_that_was_decided_is_carried_out_after_a_crash(committed: bool) -> None:
    """The client was answered; then the broker died before any partition was told."""

    async def nobody(markers: Markers, marker: Marker, partitions: Iterable[TopicPartition]) -> Any:
        return dict.fromkeys(partitions, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    async def scenario(client: Client, machine: SimBroker) -> None:
        await client.find(GROUP, 0)
        producer = await client.made()
        await client.produce(producer, b"decided")
        await client.commit_offset(producer, 5)
        with patch.object(Markers, "write", nobody):
            following = await client.end(producer, committed)
            assert isinstance(following, tuple)
            assert await client.produce(following, b"next") is ErrorCode.CONCURRENT_TRANSACTIONS
            assert await client.committed() == []
            await machine.crash(power=False)
        await machine.start()
        client = Client(await machine.connect())
        await asyncio.sleep(1)
        assert await client.committed() == ([b"decided"] if committed else [])
        assert await client.offset() == (5 if committed else -1)
        assert await client.end(producer, committed) == following
        assert await client.end(producer, not committed) is ErrorCode.INVALID_TXN_STATE

    with_client(scenario)


def test_markers_that_fail_are_written_later() -> None:
    write, is_failing = Markers.write, True

    async def sometimes(markers: Markers, marker: Marker, partitions: Iterable[TopicPartition]) -> Any:
        failing = [each for each in partitions if is_failing and each.partition == 1]
        written = await write(markers, marker, [each for each in partitions if each not in failing])
        return written | dict.fromkeys(failing, ErrorCode.KAFKA_STORAGE_ERROR)

    async def scenario(client: Client, machine: SimBroker) -> None:
        nonlocal is_failing
        producer = await client.made()
        for partition in (0, 1):
            await client.produce(producer, b"x", partition)
        with patch.object(Markers, "write", sometimes):
            await client.end(producer)
            await asyncio.sleep(5)
            assert [await client.committed(partition) for partition in (0, 1)] == [[b"x"], []]
            is_failing = False
            await asyncio.sleep(5)
            assert await client.committed(1) == [b"x"]

    with_client(scenario)


def test_two_phase_commit_can_be_switched_off() -> None:
    async def scenario(client: Client, machine: SimBroker) -> None:
        answer = await client.init(6, enable_2pc=True)
        assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

    with_client(scenario, transaction_two_phase_commit_enable="false")


def test_clients_learn_that_transactions_are_of_version_2() -> None:
    async def scenario(client: Client, machine: SimBroker) -> None:
        for version, lowest in ((3, 1), (4, 0)):
            answer = await client.call(
                ApiVersionsRequest(client_software_name="test", client_software_version="1"),
                ApiVersionsResponse,
                version=version,
            )
            finalized = {row.name: row.max_version_level for row in answer.finalized_features}
            assert finalized == {"group.version": 1, "transaction.version": 2}
            assert answer.finalized_features_epoch >= 0
            assert {row.min_version for row in answer.supported_features} == {lowest}

    with_client(scenario)


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_a_deleted_topic_does_not_keep_a_transaction_from_ending(is_made_anew: bool) -> None:
    """Nor does one of its name that has fewer partitions."""

    async def scenario(client: Client, machine: SimBroker) -> None:
        producer = await client.made()
        await client.produce(producer, b"gone", partition=1)
        await client.call(
            DeleteTopicsRequest(topic_names=["orders"], timeout_ms=1_000), DeleteTopicsResponse, version=5
        )
        if is_made_anew:
            await create(await machine.connect(), "orders", partitions=1)
        following = await client.end(producer)
        assert isinstance(following, tuple)
        described = await client.call(DescribeTransactionsRequest(transactional_ids=[TX]), DescribeTransactionsResponse)
        assert described.transaction_states[0].transaction_state == "CompleteCommit"

    with_client(scenario)


@pytest.mark.parametrize("has_committed", [False, True])
def test_an_offset_commit_that_its_transactions_end_overtakes_is_refused(has_committed: bool) -> None:
    async def scenario(client: Client, machine: SimBroker) -> None:
        await client.find(GROUP, 0)
        producer = await client.made()
        assert await client.add_offsets(producer) is ErrorCode.NONE
        if has_committed:
            assert await client.commit_offset(producer, 3, version=3) is ErrorCode.NONE
        assert machine.broker is not None
        transactions = machine.broker.transactions
        admit, is_ended = transactions.admit, asyncio.Event()

        async def admit_slowly(*asked: Any) -> dict[TopicPartition, ErrorCode]:
            verdicts = await admit(*asked)
            await is_ended.wait()
            return verdicts

        setattr(transactions, "admit", admit_slowly)  # noqa: B010
        late = asyncio.ensure_future(Client(await machine.connect()).commit_offset(producer, 7, version=3))
        await asyncio.sleep(1)
        assert await client.end(producer, committed=False, version=3) == (-1, -1)
        await asyncio.sleep(1)
        is_ended.set()
        assert await late is ErrorCode.INVALID_TXN_STATE
        setattr(transactions, "admit", admit)  # noqa: B010
        assert await client.add_offsets(producer) is ErrorCode.NONE
        assert await client.commit_offset(producer, 9, version=3) is ErrorCode.NONE
        assert await client.end(producer, version=3) == (-1, -1)
        await asyncio.sleep(1)
        assert await client.offset() == 9

    with_client(scenario)


@pytest.mark.parametrize("version", [3, 5])
def test_an_offset_commit_that_cannot_be_taken_now_is_refused_in_a_coordinators_words(version: int) -> None:
    """Older clients give up at any other."""

    async def scenario(client: Client, machine: SimBroker) -> None:
        await client.find(GROUP, 0)
        producer = await client.made()
        assert await client.add_offsets(producer) is ErrorCode.NONE
        assert machine.broker is not None
        log = machine.broker.groups.shard_for(GROUP).partition.log
        assert log is not None
        log.directory.failure = "it fails now, and its coordinators are told in a moment"
        assert await client.commit_offset(producer, 7, version) is ErrorCode.NOT_COORDINATOR
        log.directory.failure = None
        with patch.object(Transactions, "admit", unanswered):
            assert await client.commit_offset(producer, 7, version) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await client.commit_offset(producer, 7, version) is ErrorCode.NONE

    async def unanswered(_: Transactions, *asked: Any) -> dict[TopicPartition, ErrorCode]:
        return dict.fromkeys(asked[3], ErrorCode.NETWORK_EXCEPTION)

    with_client(scenario)


def test_states_that_are_none_are_named_even_where_nobody_coordinates() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine = SimBroker(network)
        await machine.start()
        connection = await machine.connect()
        request = ListTransactionsRequest(state_filters=["Ongoing", "Odd"])
        listed = await connection.call(request, ListTransactionsResponse, version=2)
        assert listed.unknown_state_filters == ["Odd"]
        await machine.stop()

    simulate(scenario)
