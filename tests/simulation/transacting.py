"""Clients of groups and transactions for a broker that dies under them; each keeps account of what it was told."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TypeVar

from millstream.client.reader import visible_batches
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
from millstream.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from millstream.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
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
from millstream.protocol.schema import Request, Response
from tests.simulation.asking import FETCH_VERSION, fetch_request
from tests.simulation.broker import SimBroker
from tests.simulation.loop import EPOCH_MS

R = TypeVar("R", bound=Response)

TOPIC = "orders"
PARTITIONS = 3
TIMEOUT_MS = 5_000
PAUSE_S = 0.05
LATEST = -1
LIST_OFFSETS_VERSION = 5
#: However long the broker was away, whoever asks it for so long is answered.
ENOUGH_S = 60
#: Ask again: the broker is not ready for this yet.
LATER = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)


class GaveUp(Exception):
    """This client does not know, or does not like, what became of its request."""


class Client:
    """Asks one thing at a time, over a connection that may be lost."""

    def __init__(self, machine: SimBroker, rng: random.Random) -> None:
        self.machine = machine
        self.rng = rng
        self._connection: Connection | None = None

    async def ask(
        self, request: Request, response: type[R], code: Callable[[R], int], version: int, patience: float = 1.0
    ) -> R:
        """The answer, asked for again while the broker is away or not ready; each time GaveUp as it is impatient."""
        deadline_s = self.machine.loop.time() + ENOUGH_S
        while True:
            assert self.machine.loop.time() < deadline_s, f"no answer in {ENOUGH_S} s to {request}"
            try:
                answer = await (await self._connected()).call(request, response, version=version, timeout_s=30)
            except OSError:  # TimeoutError and ConnectionError are.
                self._connection = None
            else:
                if code(answer) not in LATER:
                    return answer
            if self.rng.random() >= patience:
                raise GaveUp
            await asyncio.sleep(self.rng.uniform(0, PAUSE_S))

    async def _connected(self) -> Connection:
        if self._connection is None or self._connection.is_closed:
            self._connection = await self.machine.connect()
        return self._connection

    async def find_coordinators(self) -> None:
        """Both internal topics are made when they are first asked for."""
        for kind in (0, 1):
            request = FindCoordinatorRequest(key="any", key_type=kind)
            await self.ask(request, FindCoordinatorResponse, lambda answer: answer.error_code, 1)

    async def committed_offset(self, group: str) -> int:
        """What the group has committed for the first partition, once no transaction is open on it; -1 for nothing."""
        topic = OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=[topic])], require_stable=True
        )
        answer = await self.ask(request, OffsetFetchResponse, _offset_fetch_code, 8)
        assert not _offset_fetch_code(answer)
        return answer.groups[0].topics[0].partitions[0].committed_offset

    async def all_committed(self, partition: int) -> list[str]:
        """Every value that was visible before the call: a new leader may show them a moment late, which it tells."""
        row = ListOffsetsPartition(partition_index=partition, timestamp=LATEST)
        request = ListOffsetsRequest(
            replica_id=-1, isolation_level=1, topics=[ListOffsetsTopic(name=TOPIC, partitions=[row])]
        )
        answer = await self.ask(request, ListOffsetsResponse, _list_offsets_code, LIST_OFFSETS_VERSION)
        assert not _list_offsets_code(answer)
        found: list[str] = []
        offset, end = 0, answer.topics[0].partitions[0].offset
        while offset < end:
            values, offset = await self.read_committed(partition, offset)
            found += values
        return found

    async def read_committed(self, partition: int, offset: int = 0) -> tuple[list[str], int]:
        """Every visible value from this offset to the last stable one, and that one."""
        found: list[str] = []
        while True:
            request = fetch_request(TOPIC, offset, partition)
            request.isolation_level = 1
            answer = await self.ask(request, FetchResponse, _fetch_code, FETCH_VERSION)
            row = answer.responses[0].partitions[0]
            assert row.error_code == ErrorCode.NONE
            assert isinstance(row.records, bytes | memoryview | None)
            aborted = [(each.producer_id, each.first_offset) for each in row.aborted_transactions or []]
            before = offset
            for header, records in visible_batches(memoryview(row.records or b""), aborted):
                found += [bytes(record.value or b"").decode() for record in records if record.offset >= before]
                offset = header.next_offset
            if offset == before:
                return found, offset


def _fetch_code(answer: FetchResponse) -> int:
    return answer.responses[0].partitions[0].error_code


def _list_offsets_code(answer: ListOffsetsResponse) -> int:
    return answer.topics[0].partitions[0].error_code


def _offset_fetch_code(answer: OffsetFetchResponse) -> int:
    group = answer.groups[0]
    return group.error_code or group.topics[0].partitions[0].error_code


class Fate(Enum):
    """What a producer knows of its transaction."""

    NEVER = auto()  # It was never asked to commit, or aborting was answered well.
    UNKNOWN = auto()  # It was asked to commit.
    COMMITTED = auto()  # Committing was answered well.


@dataclass
class Transaction:
    """One transaction: what was sent in it, and its fate."""

    values: dict[int, list[str]] = field(default_factory=dict)
    #: What it commits for the producer's group, if anything.
    offset: int | None = None
    fate: Fate = Fate.NEVER


class Transactor(Client):
    """A transactional producer that makes transactions until it is stopped, and comes back after each loss."""

    def __init__(self, machine: SimBroker, rng: random.Random, name: str) -> None:
        super().__init__(machine, rng)
        self.name = name
        self.group = f"group of {name}"
        self.transactions: list[Transaction] = []
        self.is_stopped = False
        #: Transactions of version 2: partitions need not be announced, and each has an epoch of its own.
        self._is_new = rng.random() < 0.5
        self._patience = rng.choice((0.0, 0.5, 0.9))
        self._producer = (-1, -1)
        self._sequences: dict[int, int] = {}

    async def run(self) -> None:
        """Transactions, one after the other."""
        while not self.is_stopped:
            try:
                await self.begin_anew()
                while not self.is_stopped:
                    await self._transact()
            except GaveUp:
                await asyncio.sleep(self.rng.uniform(0, PAUSE_S))

    async def begin_anew(self) -> None:
        """Take the transactional id, which aborts what was left open."""
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=TIMEOUT_MS)
        answer = await self.ask(request, InitProducerIdResponse, lambda answer: answer.error_code, 4)
        assert answer.error_code == ErrorCode.NONE, answer
        self._renew(answer.producer_id, answer.producer_epoch)

    async def _transact(self) -> None:
        transaction = Transaction()
        self.transactions.append(transaction)
        for number in range(self.rng.randint(1, 4)):
            partition = self.rng.randrange(PARTITIONS)
            value = f"{self.name}.{len(self.transactions)}.{number}"
            transaction.values.setdefault(partition, []).append(value)
            await self._send(partition, value)
        if self.rng.random() < 0.7:
            transaction.offset = len(self.transactions)
            await self._send_offset(transaction.offset)
        if self.rng.random() < 0.03:
            await asyncio.sleep(2 * TIMEOUT_MS / 1000)
        is_commit = self.rng.random() < 0.7
        transaction.fate = Fate.UNKNOWN if is_commit else Fate.NEVER
        await self._end(is_commit)
        if is_commit:
            transaction.fate = Fate.COMMITTED
            if transaction.offset is not None and self.rng.random() < 0.3:
                assert await self.committed_offset(self.group) == transaction.offset

    async def _send(self, partition: int, value: str) -> None:
        if not self._is_new:
            await self._announce(partition)
        sequence = self._sequences.get(partition, 0)
        batch = encode_batch(
            [Record(0, EPOCH_MS, None, value.encode())],
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            base_sequence=sequence,
            transactional=True,
        )
        data = TopicProduceData(
            name=TOPIC, partition_data=[PartitionProduceData(index=partition, records=bytes(batch))]
        )
        request = ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=10_000, topic_data=[data])

        def code(answer: ProduceResponse) -> int:
            return answer.responses[0].partition_responses[0].error_code

        self._check(code(await self.ask(request, ProduceResponse, code, 12 if self._is_new else 11, self._patience)))
        self._sequences[partition] = sequence + 1

    async def _announce(self, partition: int) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self._producer[0],
            v3_and_below_producer_epoch=self._producer[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[partition])],
        )

        def code(answer: AddPartitionsToTxnResponse) -> int:
            return answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code

        self._check(code(await self.ask(request, AddPartitionsToTxnResponse, code, 3, self._patience)))

    async def _send_offset(self, offset: int) -> None:
        producer_id, producer_epoch = self._producer
        if not self._is_new:
            announcement = AddOffsetsToTxnRequest(
                transactional_id=self.name,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                group_id=self.group,
            )
            answer = await self.ask(
                announcement, AddOffsetsToTxnResponse, lambda answer: answer.error_code, 3, self._patience
            )
            self._check(answer.error_code)
        row = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=self.group,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[row])],
        )

        def code(answer: TxnOffsetCommitResponse) -> int:
            return answer.topics[0].partitions[0].error_code

        version = 5 if self._is_new else 3
        self._check(code(await self.ask(request, TxnOffsetCommitResponse, code, version, self._patience)))

    async def _end(self, is_commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self._producer[0],
            producer_epoch=self._producer[1],
            committed=is_commit,
        )
        answer = await self.ask(
            request, EndTxnResponse, lambda answer: answer.error_code, 5 if self._is_new else 3, self._patience
        )
        self._check(answer.error_code)
        if self._is_new:
            self._renew(answer.producer_id, answer.producer_epoch)

    def _renew(self, producer_id: int, producer_epoch: int) -> None:
        self._producer = (producer_id, producer_epoch)
        self._sequences.clear()

    def _check(self, code: int) -> None:
        if code != ErrorCode.NONE:
            raise GaveUp(ErrorCode(code).name)
