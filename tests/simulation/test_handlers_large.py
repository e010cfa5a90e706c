"""Large requests are written by a thread while others are answered, and lose nothing of their order for it."""

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from millstream.broker.handlers.produce import LARGE_BYTES
from millstream.client.wire import Connection
from millstream.model.errors import ErrorCode
from millstream.protocol.messages.metadata import MetadataRequest, MetadataResponse
from millstream.protocol.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse
from tests.simulation.asking import PRODUCE_VERSION, create, produce, produce_request, read_all, simulate
from tests.simulation.broker import SimBroker
from tests.simulation.network import SimNetwork

LARGE, MORE = b"l" * 2 * LARGE_BYTES, b"m" * 2 * LARGE_BYTES
SMALL = b"small"
#: So long a thread takes at most to begin, and again to be heard of.
THREAD_MS = 200


async def begun(network: SimNetwork) -> tuple[SimBroker, Connection, Connection]:
    """A broker with slow threads, a topic that was written to, and two clients."""
    machine = SimBroker(network, delay_ms_max=THREAD_MS)
    await machine.start()
    one, other = await machine.connect(), await machine.connect()
    await create(one, "orders")
    await create(one, "quiet")
    await produce(one, "orders", b"first")
    await produce(one, "quiet", b"first")
    return machine, one, other


def send(connection: Connection, topic: str, *values: bytes) -> "asyncio.Task[PartitionProduceResponse]":
    async def asked() -> PartitionProduceResponse:
        answer = await connection.call(produce_request(topic, *values), ProduceResponse, version=PRODUCE_VERSION)
        return answer.responses[0].partition_responses[0]

    return asyncio.ensure_future(asked())


def lent(machine: SimBroker) -> int:
    """How much of the broker's memory is lent to requests."""
    assert machine.broker is not None
    return max(connection._limits.pool.lent_bytes for connection in machine.broker.connections)


async def look(connection: Connection) -> None:
    """Ask for something, so that there is somebody else."""
    await connection.call(MetadataRequest(topics=[]), MetadataResponse, version=9)


def test_others_are_answered_while_a_large_batch_is_written() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, one, other = await begun(network)
        await look(other)
        large = send(one, "orders", LARGE)
        for number in range(1, 4):
            assert (await produce(other, "quiet", SMALL)).base_offset == number
        assert not large.done(), "the thread has not been heard of yet"
        row = await large
        assert (row.error_code, row.base_offset) == (ErrorCode.NONE, 1)
        assert await read_all(other, "orders") == [b"first", LARGE]
        await machine.stop()

    simulate(scenario)


def test_a_client_that_is_alone_has_its_batches_written_at_once() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, one, _ = await begun(network)
        await asyncio.sleep(1)
        before_s = machine.loop.time()
        await send(one, "orders", LARGE)
        assert machine.loop.time() - before_s < THREAD_MS / 1000 / 2
        assert await read_all(one, "orders") == [b"first", LARGE]
        await machine.stop()

    simulate(scenario)


@pytest.mark.parametrize("seed", range(6))
def test_requests_of_one_connection_and_of_others_keep_their_order(seed: int) -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, one, other = await begun(network)
        await look(other)
        sent = [send(one, "orders", LARGE), send(one, "orders", b"behind"), send(one, "orders", MORE)]
        await asyncio.sleep(machine.rng.uniform(0, 0.1))
        sent += [send(other, "orders", SMALL), send(other, "orders", MORE)]
        rows = await asyncio.gather(*sent)
        offsets = [row.base_offset for row in rows]
        assert [row.error_code for row in rows] == [ErrorCode.NONE] * 5
        assert offsets[:3] == sorted(offsets[:3])
        assert offsets[3:] == sorted(offsets[3:])
        held = await read_all(one, "orders")
        assert [held[offset] for offset in offsets] == [LARGE, b"behind", MORE, SMALL, MORE]
        assert len(held) == 6
        await machine.stop()

    simulate(scenario, seed)


def test_a_client_that_goes_away_meanwhile_leaves_its_batch_and_no_memory_behind() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, one, other = await begun(network)
        await look(other)
        large = send(one, "orders", LARGE)
        await asyncio.sleep(0.001)
        one.close()
        with pytest.raises(OSError):
            await large
        assert (await produce(other, "orders", SMALL)).base_offset == 2
        assert await read_all(other, "orders") == [b"first", LARGE, SMALL]
        await asyncio.sleep(1)
        assert lent(machine) == 0
        await machine.stop()

    simulate(scenario)


def test_a_request_for_several_partitions_has_each_where_it_belongs() -> None:
    """Large and small, one twice, one that is not there, one that is refused when its turn comes."""

    async def scenario(network: SimNetwork) -> None:
        machine, one, other = await begun(network)
        await look(other)
        large, again = produce_request("orders", LARGE), produce_request("orders", MORE)
        small, nowhere = produce_request("quiet", SMALL), produce_request("nowhere", LARGE)
        parts = [large, nowhere, again, small]
        request = ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[part.topic_data[0] for part in parts])
        answer = await one.call(request, ProduceResponse, version=PRODUCE_VERSION)
        rows = [topic.partition_responses[0] for topic in answer.responses]
        assert [(row.error_code, row.base_offset) for row in rows] == [
            (ErrorCode.NONE, 1),
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
            (ErrorCode.NONE, 2),
            (ErrorCode.NONE, 1),
        ]
        assert await read_all(other, "orders") == [b"first", LARGE, MORE]
        assert lent(machine) == 0
        await machine.stop()

    simulate(scenario)


def test_a_batch_that_is_refused_after_all_is_refused_to_its_client_alone() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, one, other = await begun(network)
        broker = machine.broker
        assert broker is not None
        await look(other)
        large = send(one, "orders", LARGE)
        await asyncio.sleep(0.001)
        log = broker.replicas.find("orders", 0).log
        assert log is not None
        log.config = replace(log.config, max_message_bytes=1_000)  # Behind everyone's back, who would settle first.
        assert (await produce(other, "orders", SMALL)).base_offset == 1
        assert (await large).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert await read_all(other, "orders") == [b"first", SMALL]
        assert lent(machine) == 0
        await machine.stop()

    simulate(scenario)


def test_a_mistake_of_our_own_meets_the_request_it_was_made_with(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, one, other = await begun(network)
        broker = machine.broker
        assert broker is not None
        await look(other)
        large = send(one, "orders", LARGE)
        await asyncio.sleep(0.001)
        partition = broker.replicas.find("orders", 0)
        log, partition.traffic = partition.log, cast("Any", None)
        assert log is not None
        log.settle()  # Whoever needs the log is not told of it.
        partition.traffic = broker.replicas.find("quiet", 0).traffic
        with pytest.raises(OSError):
            await large
        assert (await produce(other, "orders", SMALL)).base_offset == 2, "it was written once"
        assert lent(machine) == 0
        await machine.stop()

    simulate(scenario)
    assert "request Produce" in caplog.text


def test_whoever_decides_on_the_log_knows_of_the_batch_on_its_way() -> None:
    """A marker that comes late, for one, must find the next transaction begun."""

    async def scenario(network: SimNetwork) -> None:
        machine, one, other = await begun(network)
        broker = machine.broker
        assert broker is not None
        await look(other)
        large = send(one, "orders", LARGE)
        await asyncio.sleep(0.001)
        log = broker.replicas.find("orders", 0).log
        assert log is not None
        assert log.ahead is not None
        assert broker.replicas.find("orders", 0).leader_log().end_offset == 1, "readers do not wait for it"
        assert broker.replicas.find("orders", 0).settled_log().end_offset == 2
        assert (await large).base_offset == 1
        await machine.stop()

    simulate(scenario)


@pytest.mark.parametrize("power", [False, True])
def test_a_broker_that_dies_meanwhile_has_the_batch_whole_or_not_at_all(*, power: bool) -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, one, other = await begun(network)
        await look(other)
        large = send(one, "orders", LARGE)
        await asyncio.sleep(machine.rng.uniform(0, 2 * THREAD_MS / 1000))
        is_acknowledged = large.done()
        await machine.crash(power=power)
        with pytest.raises(OSError):
            await large
        await machine.start()
        again = await machine.connect()
        held = await read_all(again, "orders")
        assert held in ([], [b"first"], [b"first", LARGE])
        assert power or len(held) >= 1 + is_acknowledged
        await machine.stop()

    for seed in range(8):
        simulate(scenario, seed)


def test_a_replica_that_is_stopped_meanwhile_has_the_batch_first() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine, one, other = await begun(network)
        broker = machine.broker
        assert broker is not None
        await look(other)
        large = send(one, "orders", LARGE)
        await asyncio.sleep(0.001)
        partition = broker.replicas.find("orders", 0)
        log = partition.log
        assert log is not None
        assert (log.ahead is None, log.end_offset) == (False, 1)
        partition.retire()
        assert (log.ahead is None, log.end_offset) == (True, 2)
        assert (await large).error_code in (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        await machine.stop()

    simulate(scenario)
