"""A transactional producer that sends what it is told to, version by version."""

from collections.abc import Callable, Coroutine
from typing import Any

from millstream.client.wire import Connection
from millstream.model.errors import ErrorCode
from millstream.model.records import Record, encode_batch
from millstream.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from millstream.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from millstream.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from millstream.protocol.messages.fetch import FetchResponse
from millstream.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from millstream.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from millstream.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
)
from millstream.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from millstream.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from tests.simulation.asking import batches_of, create, fetch_request, simulate
from tests.simulation.broker import SimBroker
from tests.simulation.loop import EPOCH_MS
from tests.simulation.network import SimNetwork

TX, GROUP = "tx", "g"
Id = tuple[int, int]


class Client:
    """A producer that sends what it is told to."""

    def __init__(self, connection: Connection, transactional_id: str = TX, topic: str = "orders") -> None:
        self.call = connection.call
        self.transactional_id = transactional_id
        self.topic = topic
        self._sequences: dict[tuple[Id, int], int] = {}

    async def find(self, key: str, key_type: int) -> None:
        answer = await self.call(FindCoordinatorRequest(key=key, key_type=key_type), FindCoordinatorResponse, version=3)
        assert answer.error_code == ErrorCode.NONE, answer.error_message

    async def init(self, version: int = 5, **fields: Any) -> InitProducerIdResponse:
        fields = {"transactional_id": self.transactional_id, "transaction_timeout_ms": 60_000, **fields}
        return await self.call(InitProducerIdRequest(**fields), InitProducerIdResponse, version=version)

    async def made(self, **fields: Any) -> Id:
        answer = await self.init(**fields)
        assert answer.error_code == ErrorCode.NONE
        return answer.producer_id, answer.producer_epoch

    async def add(self, producer: Id, *partitions: int, version: int = 3, topic: str | None = None) -> list[ErrorCode]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=producer[0],
            v3_and_below_producer_epoch=producer[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic or self.topic, partitions=list(partitions))],
        )
        answer = await self.call(request, AddPartitionsToTxnResponse, version=version)
        rows = answer.results_by_topic_v3_and_below[0].results_by_partition
        codes = {row.partition_index: ErrorCode(row.partition_error_code) for row in rows}  # In no order, from Kafka.
        return [codes[partition] for partition in partitions]

    async def produce(self, producer: Id, value: bytes, partition: int = 0, version: int = 12) -> ErrorCode:
        sequence = self._sequences.get((producer, partition), 0)
        batch = encode_batch(
            [Record(0, EPOCH_MS, None, value)],
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
            transactional=True,
        )
        data = PartitionProduceData(index=partition, records=bytes(batch))
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[TopicProduceData(name=self.topic, partition_data=[data])],
        )
        answer = await self.call(request, ProduceResponse, version=version)
        code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
        if code is ErrorCode.NONE:
            self._sequences[producer, partition] = sequence + 1
        return code

    async def commit_offset(self, producer: Id, offset: int, version: int = 5) -> ErrorCode:
        row = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=GROUP,
            producer_id=producer[0],
            producer_epoch=producer[1],
            topics=[TxnOffsetCommitRequestTopic(name=self.topic, partitions=[row])],
        )
        answer = await self.call(request, TxnOffsetCommitResponse, version=version)
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    async def add_offsets(self, producer: Id, version: int = 3) -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id, producer_id=producer[0], producer_epoch=producer[1], group_id=GROUP
        )
        answer = await self.call(request, AddOffsetsToTxnResponse, version=version)
        return ErrorCode(answer.error_code)

    async def end(self, producer: Id, committed: bool = True, version: int = 5) -> Id | ErrorCode:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=committed,
        )
        answer = await self.call(request, EndTxnResponse, version=version)
        if answer.error_code:
            assert (answer.producer_id, answer.producer_epoch) == (-1, -1)
            return ErrorCode(answer.error_code)
        return answer.producer_id, answer.producer_epoch

    async def offset(self) -> int:
        request = OffsetFetchRequest(
            group_id=GROUP, topics=[OffsetFetchRequestTopic(name=self.topic, partition_indexes=[0])]
        )
        answer = await self.call(request, OffsetFetchResponse, version=5)
        return answer.topics[0].partitions[0].committed_offset

    async def committed(self, partition: int = 0) -> list[bytes | None]:
        """What a consumer of committed records is shown, markers left out as clients do."""
        request = fetch_request(self.topic, 0, partition)
        request.isolation_level = 1
        answer = await self.call(request, FetchResponse, version=12)
        aborted = answer.responses[0].partitions[0].aborted_transactions or []
        starts = {(row.producer_id, row.first_offset) for row in aborted}
        hidden: set[int] = set()
        values: list[bytes | None] = []
        for header, records in batches_of(answer):
            hidden |= {producer_id for producer_id, first in starts if first == header.base_offset}
            if header.is_control:
                hidden.discard(header.producer_id)
            elif header.producer_id not in hidden:
                values += [record.value for record in records]
        return values


def with_client(scenario: Callable[[Client, SimBroker], Coroutine[Any, Any, None]], **settings: str) -> None:
    async def run(network: SimNetwork) -> None:
        machine = SimBroker(network, settings={name.replace("_", "."): value for name, value in settings.items()})
        await machine.start()
        connection = await machine.connect()
        await create(connection, "orders", partitions=2)
        client = Client(connection)
        await client.find(TX, 1)
        await scenario(client, machine)
        await machine.stop()

    simulate(run)
