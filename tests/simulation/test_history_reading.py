"""Old records are read at full speed by whoever is alone, and at a pace beside others."""

import asyncio

from millstream.client.wire import Connection
from millstream.protocol.messages.fetch import FetchResponse
from millstream.replication.company import LINGER_S, STAY_S
from millstream.replication.history import BYTES_PER_S
from tests.simulation.asking import FETCH_VERSION, batches_of, create, fetch_request, produce, simulate
from tests.simulation.broker import SimBroker
from tests.simulation.network import SimNetwork

RECORD_BYTES = 200_000
SEGMENT_BYTES = 300_000
#: Each in a segment of its own; one more is in the segment that is written to.
OLD_RECORDS = 12
PACED_S = (OLD_RECORDS - 1) * RECORD_BYTES / BYTES_PER_S
#: Questions that make company of whoever asks them, one after half the time that it is remembered.
QUESTIONS = int(2 * STAY_S / LINGER_S) + 2


async def _filled(machine: SimBroker) -> Connection:
    await machine.start()
    connection = await machine.connect()
    await create(connection, "orders", segment_bytes=str(SEGMENT_BYTES))
    await create(connection, "clicks")
    for _ in range(OLD_RECORDS + 1):
        await produce(connection, "orders", b"x" * RECORD_BYTES)
    await asyncio.sleep(60)  # Nobody is here any more.
    return connection


async def _reading_s(reader: Connection, neighbour: Connection | None) -> float:
    """How long the old records take; the neighbour has a record written before each of them."""
    began_s = asyncio.get_running_loop().time()
    for offset in range(OLD_RECORDS):
        if neighbour is not None:
            await produce(neighbour, "clicks", b"x")
        answer = await reader.call(fetch_request("orders", offset), FetchResponse, version=FETCH_VERSION)
        assert [header.base_offset for header, _ in batches_of(answer)] == [offset]
    return asyncio.get_running_loop().time() - began_s


async def _company(machine: SimBroker) -> Connection:
    """Somebody who has been asking for a while."""
    connection = await machine.connect()
    for _ in range(QUESTIONS):
        await produce(connection, "clicks", b"x")
        await asyncio.sleep(LINGER_S / 2)
    return connection


def test_whoever_reads_history_alone_never_rests() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine = SimBroker(network)
        reader = await _filled(machine)
        assert await _reading_s(reader, None) < PACED_S / 2
        await machine.stop()

    simulate(scenario)


def test_whoever_reads_history_beside_others_keeps_a_pace_and_gets_everything() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine = SimBroker(network)
        reader = await _filled(machine)
        assert await _reading_s(reader, await _company(machine)) >= PACED_S
        await machine.stop()

    simulate(scenario)


def test_whoever_has_read_alone_is_not_held_up_for_it_when_somebody_comes() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine = SimBroker(network)
        reader = await _filled(machine)
        for _ in range(20):
            await _reading_s(reader, None)
        assert PACED_S <= await _reading_s(reader, await _company(machine)) < 2 * PACED_S
        await machine.stop()

    simulate(scenario)


def test_whoever_reads_history_is_not_held_up_by_its_own_look_at_the_log() -> None:
    """A client asks for metadata and offsets, on connections of their own too, just before it reads."""

    async def scenario(network: SimNetwork) -> None:
        machine = SimBroker(network)
        reader = await _filled(machine)
        await produce(await machine.connect(), "clicks", b"x")
        assert await _reading_s(reader, None) < PACED_S / 2
        await machine.stop()

    simulate(scenario)


def test_whoever_reads_what_is_new_does_not_rest_and_is_company_again() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine = SimBroker(network)
        broker = await machine.start()
        reader = await machine.connect()
        await create(reader, "orders", segment_bytes=str(SEGMENT_BYTES))
        for _ in range(3):
            await produce(reader, "orders", b"x" * RECORD_BYTES)
        await asyncio.sleep(60)
        for offset, is_company in ((0, False), (2, True), (1, False)):
            await asyncio.sleep(60)
            for _ in range(QUESTIONS):
                await asyncio.sleep(LINGER_S / 2)
                await reader.call(fetch_request("orders", offset), FetchResponse, version=FETCH_VERSION)
            assert broker.company.is_here() is is_company
        await machine.stop()

    simulate(scenario)
