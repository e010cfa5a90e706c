"""How transactions are begun, ended and refused, request by request; each answer was first seen from Apache Kafka."""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import pytest

from millstream.client.wire import Address, connect
from millstream.model.errors import ErrorCode
from millstream.protocol.messages.init_producer_id import InitProducerIdResponse
from tests.compatibility.conftest import NewTopic
from tests.compatibility.connections import TRANSACTION, coordinator_of, leader_of
from tests.simulation.transactional_client import Client, Id

T = TypeVar("T")

FENCED, ABORTABLE, STATE = ErrorCode.PRODUCER_FENCED, ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE
NO_MAPPING, NONE = ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.NONE
#: What a client waits through: leader or coordinator are on their way, the transaction before has not ended everywhere.
PASSING = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
PATIENCE_S = 30
V1, V2 = 4, 5


async def settled(ask: Callable[[], Awaitable[T]]) -> T:
    """The answer, once it is none that passes."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        answer = await ask()
        code = ErrorCode(answer.error_code) if isinstance(answer, InitProducerIdResponse) else answer
        codes = code if isinstance(code, list) else [code]
        if not PASSING.intersection(codes) or time.monotonic() > deadline_s:
            return answer
        await asyncio.sleep(0.02)


class Patient:
    """A client that asks again for as long as it is told to wait."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def init(self, **fields: Any) -> Id | ErrorCode:
        answer = await settled(lambda: self._client.init(**fields))
        return ErrorCode(answer.error_code) if answer.error_code else (answer.producer_id, answer.producer_epoch)

    async def made(self, **fields: Any) -> Id:
        answer = await self.init(**fields)
        assert isinstance(answer, tuple), answer
        return answer

    async def claims(self, producer: Id) -> Id | ErrorCode:
        return await self.init(producer_id=producer[0], producer_epoch=producer[1])

    async def add(self, producer: Id, *partitions: int, **options: Any) -> list[ErrorCode]:
        return await settled(lambda: self._client.add(producer, *partitions, **options))

    async def produce(self, producer: Id, version: int = 12) -> ErrorCode:
        return await settled(lambda: self._client.produce(producer, b"x", version=version))

    async def end(self, producer: Id, committed: bool = True, version: int = V2) -> Id | ErrorCode:
        return await settled(lambda: self._client.end(producer, committed, version))


Scenario = Callable[[Patient], Coroutine[Any, Any, None]]


@pytest.fixture
def play(bootstrap: str, new_topic: NewTopic) -> Callable[[Scenario], None]:
    """Runs a scenario with a client of its own."""

    def run(scenario: Scenario) -> None:
        async def main() -> None:
            topic = new_topic(partitions=2, together=True)
            leader = leader_of(bootstrap, topic)
            host, _, port = leader.rpartition(":")
            connection = await connect(Address(host, int(port)))
            try:
                # One whose coordinator leads the topic too, so that one connection will do.
                while coordinator_of(bootstrap, name := f"tx-{uuid.uuid4().hex[:12]}", TRANSACTION) != leader:
                    pass
                await scenario(Patient(Client(connection, name, topic)))
            finally:
                connection.close()

        asyncio.run(main())

    return run


def test_version_2_from_beginning_to_end(play: Callable[[Scenario], None]) -> None:
    async def scenario(client: Patient) -> None:
        first = await client.made()
        assert first[1] == 0
        assert await client.end(first) is STATE
        assert await client.produce(first) is NONE
        second = await client.end(first)
        assert second == (first[0], 1)
        # The same again, the other way round, and something to come.
        assert await client.end(first) == second
        assert await client.end(first, False) is STATE
        assert await client.end((first[0], 2)) is FENCED
        assert await client.end((first[0] + 1_000_000, 0)) is NO_MAPPING
        # A late one hits nothing.
        assert await client.produce(second) is NONE
        assert await client.end(first) is FENCED
        assert await client.end(first, False) is FENCED
        assert await client.produce(first) is ErrorCode.INVALID_PRODUCER_EPOCH
        third = await client.end(second, False)
        assert third == (first[0], 2)
        # Nothing was added: an abort ends it, a commit does not.
        assert await client.end(third) is STATE
        assert await client.end(third, False) == (first[0], 3)
        assert await client.end(third, False) == (first[0], 3)

    play(scenario)


def test_version_1_from_beginning_to_end(play: Callable[[Scenario], None]) -> None:
    async def scenario(client: Patient) -> None:
        producer = await client.made()
        for committed in (True, False):
            assert await client.end(producer, committed, V1) is STATE
        assert await client.produce(producer, 11) is ABORTABLE
        assert await client.produce(producer, 10) is STATE
        for committed in (True, False):
            assert await client.add(producer, 0, 1) == [NONE, NONE]
            assert await client.produce(producer, 11) is NONE
            assert await client.end(producer, committed, V1) == (-1, -1)
            assert await client.end(producer, committed, V1) == (-1, -1)
            assert await client.end(producer, not committed, V1) is STATE
        missing = [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await client.add(producer, 0, 9) == missing
        assert await client.add((producer[0] + 1_000_000, 0), 0) == [NO_MAPPING]

    play(scenario)


def test_fencing(play: Callable[[Scenario], None]) -> None:
    async def scenario(client: Patient) -> None:
        zombie = await client.made()
        producer = await client.made()
        assert producer == (zombie[0], 1)
        assert await client.claims(zombie) is FENCED
        assert await client.init(version=3, producer_id=zombie[0], producer_epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await client.add(zombie, 0) == [FENCED]
        assert await client.add(zombie, 0, version=1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        assert await client.end(zombie, version=1) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await client.claims((zombie[0] + 1_000_000, 0)) is FENCED
        assert await client.claims((zombie[0], -1)) is ErrorCode.INVALID_REQUEST

    play(scenario)


def test_an_ongoing_transaction_is_aborted_under_an_epoch_of_its_own(play: Callable[[Scenario], None]) -> None:
    async def scenario(client: Patient) -> None:
        zombie = await client.made()
        assert await client.produce(zombie) is NONE
        producer = await client.made()
        assert producer == (zombie[0], 2)
        assert await client.produce(zombie) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await client.produce(producer) is NONE

    play(scenario)


def test_coming_back(play: Callable[[Scenario], None]) -> None:
    async def scenario(client: Patient) -> None:
        first = await client.made()
        second = await client.claims(first)
        assert second == (first[0], 1)
        assert await client.claims(first) == second
        assert isinstance(second, tuple)
        assert await client.produce(second) is NONE
        # With a transaction under way: it is aborted, and the answer to that claim is the epoch after it.
        assert await client.claims(second) == (first[0], 2)
        assert await client.claims(second) == (first[0], 2)

    play(scenario)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_out_of_bounds(play: Callable[[Scenario], None], timeout_ms: int) -> None:
    async def scenario(client: Patient) -> None:
        assert await client.init(transaction_timeout_ms=timeout_ms) is ErrorCode.INVALID_TRANSACTION_TIMEOUT

    play(scenario)


def test_an_empty_id(play: Callable[[Scenario], None]) -> None:
    async def scenario(client: Patient) -> None:
        assert await client.init(transactional_id="") is ErrorCode.INVALID_REQUEST

    play(scenario)
