"""Transactional batches over the wire: the coordinator is asked first, and committed readers are kept from the rest."""

import asyncio
import errno
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from millstream.client.wire import Connection
from millstream.model.errors import ErrorCode
from millstream.model.ids import TopicPartition
from millstream.model.records import Record, encode_batch
from millstream.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from millstream.protocol.messages.fetch import FetchResponse
from millstream.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from millstream.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from millstream.replication.partition import Partition
from tests.simulation.asking import create, fetch_request, produce, simulate, values_of
from tests.simulation.broker import SimBroker
from tests.simulation.loop import EPOCH_MS
from tests.simulation.network import SimNetwork

ORDERS = TopicPartition("orders", 0)
NEW, OLD = 12, 11


class Coordinator:
    """Says what a test tells it to, after as long as it tells it to."""

    def __init__(self) -> None:
        self.code = ErrorCode.NONE
        self.delay_s = 0.0
        self.asked: list[tuple[str, int, int, list[TopicPartition], bool]] = []
        self.is_asked = asyncio.Event()

    async def admit(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: list[TopicPartition],
        adds: bool,
    ) -> dict[TopicPartition, ErrorCode]:
        self.asked.append((transactional_id, producer_id, producer_epoch, partitions, adds))
        self.is_asked.set()
        code = self.code
        if self.delay_s:
            waiting = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(self.delay_s, waiting.set_result, None)
            await waiting
        return dict.fromkeys(partitions, code)


class Ground:
    """A broker with a topic, a connection to it and a coordinator beside it."""

    def __init__(self, machine: SimBroker, connection: Connection) -> None:
        self.machine = machine
        self.connection = connection
        self.coordinator = Coordinator()
        setattr(machine.broker, "transactions", self.coordinator)  # noqa: B010

    @property
    def partition(self) -> Partition:
        assert self.machine.broker is not None
        return self.machine.broker.replicas.find(*ORDERS)

    def request(self, sequence: int, *, producer_id: int = 7, transactional_id: str | None = "tx") -> ProduceRequest:
        fields: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequence}
        records = encode_batch([Record(0, EPOCH_MS, None, b"%d" % sequence)], **fields, transactional=True)
        data = PartitionProduceData(index=0, records=bytes(records))
        return ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name="orders", partition_data=[data])],
        )

    async def send(self, sequence: int, *, version: int = NEW, **fields: Any) -> PartitionProduceResponse:
        request = self.request(sequence, **fields)
        answer = await self.connection.call(request, ProduceResponse, version=version)
        return answer.responses[0].partition_responses[0]

    def end(self, *, is_commit: bool, producer_id: int = 7, epoch: int = 0) -> None:
        self.partition.append_marker(producer_id, epoch, is_commit, 0, EPOCH_MS)

    async def fetch(self, offset: int = 0, *, isolation_level: int = 1, max_wait_ms: int = 0) -> FetchResponse:
        request = fetch_request("orders", offset, max_wait_ms=max_wait_ms)
        request.isolation_level = isolation_level
        return await self.connection.call(request, FetchResponse, version=12)

    async def latest(self, isolation_level: int) -> int:
        row = ListOffsetsPartition(partition_index=0, timestamp=-1)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[ListOffsetsTopic(name="orders", partitions=[row])],
        )
        answer = await self.connection.call(request, ListOffsetsResponse, version=6)
        return answer.topics[0].partitions[0].offset


def on_ground(scenario: Callable[[Ground], Coroutine[Any, Any, None]], **settings: str) -> None:
    async def run(network: SimNetwork) -> None:
        machine = SimBroker(network, settings={name.replace("_", "."): value for name, value in settings.items()})
        await machine.start()
        connection = await machine.connect()
        await create(connection, "orders")
        await scenario(Ground(machine, connection))
        await machine.stop()

    simulate(run)


@pytest.mark.parametrize(("version", "adds"), [(NEW, True), (OLD, False), (3, False)])
def test_the_coordinator_is_asked_once_for_each_transaction(version: int, adds: bool) -> None:
    async def scenario(ground: Ground) -> None:
        for sequence in range(3):
            assert (await ground.send(sequence, version=version)).base_offset == sequence
        assert ground.coordinator.asked == [("tx", 7, 0, [ORDERS], adds)]

    on_ground(scenario)


@pytest.mark.parametrize(
    ("code", "version", "told"),
    [
        (ErrorCode.INVALID_TXN_STATE, NEW, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, NEW, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, OLD, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, NEW, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NOT_COORDINATOR, NEW, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, OLD, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NETWORK_EXCEPTION, NEW, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, NEW, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, NEW, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.PRODUCER_FENCED, NEW, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, OLD, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, 10, ErrorCode.INVALID_TXN_STATE),
    ],
)
def test_a_refusal_is_told_in_words_that_producers_know(code: ErrorCode, version: int, told: ErrorCode) -> None:
    async def scenario(ground: Ground) -> None:
        ground.coordinator.code = code
        row = await ground.send(0, version=version)
        assert row.error_code == told
        assert code.name in (row.error_message or code.name)
        assert ground.partition.high_watermark == 0
        ground.coordinator.code = ErrorCode.NONE
        assert (await ground.send(0, version=version)).error_code == ErrorCode.NONE

    on_ground(scenario)


def test_a_transaction_without_an_id_is_refused() -> None:
    async def scenario(ground: Ground) -> None:
        row = await ground.send(0, transactional_id=None)
        assert row.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert not ground.coordinator.asked

    on_ground(scenario)


def test_a_request_has_one_producer() -> None:
    async def scenario(ground: Ground) -> None:
        request = ground.request(0)
        request.topic_data += ground.request(0, producer_id=8).topic_data
        answer = await ground.connection.call(request, ProduceResponse, version=NEW)
        codes = [row.error_code for topic in answer.responses for row in topic.partition_responses]
        assert codes == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
        assert not ground.coordinator.asked

    on_ground(scenario)


def test_old_producers_are_not_checked_where_that_is_turned_off() -> None:
    async def scenario(ground: Ground) -> None:
        assert (await ground.send(0, version=OLD)).error_code == ErrorCode.NONE
        assert not ground.coordinator.asked
        assert (await ground.send(0, producer_id=8)).error_code == ErrorCode.NONE
        assert len(ground.coordinator.asked) == 1

    on_ground(scenario, transaction_partition_verification_enable="false")


def test_requests_behind_one_that_asks_keep_their_order() -> None:
    """Batches of one producer are sent without waiting; the first one's question takes a second."""

    async def scenario(ground: Ground) -> None:
        ground.coordinator.delay_s = 1.0
        answers = await asyncio.gather(*(ground.send(sequence) for sequence in range(5)))
        assert [row.error_code for row in answers] == [ErrorCode.NONE] * 5
        assert [row.base_offset for row in answers] == [0, 1, 2, 3, 4]
        assert len(ground.coordinator.asked) == 1
        answer = await ground.fetch(isolation_level=0)
        assert values_of(answer) == [b"0", b"1", b"2", b"3", b"4"]

    on_ground(scenario)


def test_a_batch_is_not_taken_when_an_abort_came_before_the_answer() -> None:
    async def scenario(ground: Ground) -> None:
        ground.coordinator.delay_s = 1.0
        sending = asyncio.ensure_future(ground.send(0, version=OLD))
        await ground.coordinator.is_asked.wait()
        ground.end(is_commit=False)
        assert (await sending).error_code == ErrorCode.INVALID_TXN_STATE
        assert ground.partition.last_stable_offset == ground.partition.high_watermark == 1

    on_ground(scenario)


def test_committed_readers_are_told_what_to_leave_out() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.send(0)
        await ground.send(0, producer_id=8)
        await produce(ground.connection, "orders", b"plain")
        row = (await ground.fetch()).responses[0].partitions[0]
        assert (row.last_stable_offset, row.high_watermark, row.aborted_transactions) == (0, 3, [])
        assert not row.records
        assert (await ground.latest(1), await ground.latest(0)) == (0, 3)
        ground.end(is_commit=False)
        answer = await ground.fetch()
        (told,) = answer.responses[0].partitions[0].aborted_transactions or []
        assert (told.producer_id, told.first_offset) == (7, 0)
        assert values_of(answer) == [b"0"]
        ground.end(is_commit=True, producer_id=8)
        assert await ground.latest(1) == 5
        for offset, count in ((0, 1), (1, 1), (3, 1), (4, 0)):
            row = (await ground.fetch(offset)).responses[0].partitions[0]
            assert len(row.aborted_transactions or []) == count
        row = (await ground.fetch(isolation_level=0)).responses[0].partitions[0]
        assert row.aborted_transactions is None

    on_ground(scenario)


def test_a_committed_reader_who_waits_is_answered_when_the_transaction_ends() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.send(0)
        other = await ground.machine.connect()
        request = fetch_request("orders", 0, max_wait_ms=60_000)
        request.isolation_level = 1
        waiting = asyncio.ensure_future(other.call(request, FetchResponse, version=12))
        await asyncio.sleep(5)
        assert not waiting.done()
        ground.end(is_commit=True)
        assert values_of(await waiting)[0] == b"0"
        assert asyncio.get_running_loop().time() < 10

    on_ground(scenario)


def test_producers_are_described() -> None:
    async def scenario(ground: Ground) -> None:
        await ground.send(0)
        request = DescribeProducersRequest(topics=[TopicRequest(name="orders", partition_indexes=[0, 5])])
        answer = await ground.connection.call(request, DescribeProducersResponse, version=0)
        known, unknown = answer.topics[0].partitions
        (producer,) = known.active_producers
        assert (producer.producer_id, producer.last_sequence, producer.current_txn_start_offset) == (7, 0, 0)
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    on_ground(scenario)


def test_a_disk_that_fails_under_a_reader_is_told_of_as_such() -> None:
    async def scenario(ground: Ground) -> None:
        await produce(ground.connection, "orders", b"plain")
        ground.machine.files.fail("read", errno.EIO, path="/data/a/orders-0/*.log")
        row = (await ground.fetch()).responses[0].partitions[0]
        assert (row.error_code, bytes(row.records or b"")) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")

    on_ground(scenario)
