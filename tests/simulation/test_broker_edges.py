"""Edges of the broker, each once a fault: on virtual time, with the disk and the network as bad as they come."""

import asyncio
import errno
import struct
from contextlib import suppress

import pytest

from millstream.client.wire import Address, Unreachable, connect
from millstream.controller.controller import Controller
from millstream.model.errors import ErrorCode
from millstream.protocol.headers import encode_request_header
from millstream.protocol.messages.api_versions import ApiVersionsRequest
from millstream.protocol.messages.fetch import FetchRequest, FetchResponse
from millstream.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.simulation.asking import FETCH_VERSION, create, fetch_request, produce, read_all, simulate
from tests.simulation.broker import SimBroker
from tests.simulation.network import SimNetwork

TWO_DIRECTORIES = {"log.dirs": "/data/a,/data/b"}


def test_a_directory_that_is_offline_at_start_is_not_replaced_by_an_empty_one() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine = SimBroker(network, settings=TWO_DIRECTORIES)
        broker = await machine.start()
        connection = await machine.connect()
        await create(connection, "orders", partitions=2)
        for partition in (0, 1):
            await produce(connection, "orders", b"kept", partition=partition)
        in_b = next(
            index
            for index in (0, 1)
            if (log := broker.replicas.find("orders", index).log) is not None and log.directory.path == "/data/b"
        )
        await machine.stop()
        machine.files.fail("list", errno.EIO, path="/data/b*")
        await machine.start()
        connection = await machine.connect()
        refused = await produce(connection, "orders", b"shadow", partition=in_b)
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (await produce(connection, "orders", b"more", partition=1 - in_b)).error_code == ErrorCode.NONE
        await machine.stop()
        machine.files.heal()
        await machine.start()
        connection = await machine.connect()
        assert await read_all(connection, "orders", partition=in_b) == [b"kept"]
        await machine.stop()

    simulate(scenario)


def test_the_cleaner_hears_of_logs_that_are_made_while_the_broker_starts() -> None:
    """What it had noted of a log that is gone must not be taken for the truth about the one in its place."""

    async def scenario(network: SimNetwork) -> None:
        machine = SimBroker(network)
        await machine.start()
        await create(await machine.connect(), "orders")
        await machine.stop()
        machine.files.remove_tree("/data/a/orders-0")
        machine.files.replace("/data/a/cleaner-offset-checkpoint", b"0\n1\norders 0 180\n")
        broker = await machine.start()
        assert broker.replicas.find("orders", 0).log is not None
        assert machine.files.read("/data/a/cleaner-offset-checkpoint") == b"0\n0\n"
        await machine.stop()

    simulate(scenario)


def test_nobody_is_served_before_the_broker_has_its_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it starts, a client waits for its answer, and is not told that its topic is unknown."""
    begin = Controller.start

    async def begin_slowly(controller: Controller) -> None:
        await asyncio.sleep(1)
        await begin(controller)

    async def scenario(network: SimNetwork) -> None:
        machine = SimBroker(network)
        await machine.start()
        connection = await machine.connect()
        await create(connection, "orders", partitions=20)
        await machine.stop()
        monkeypatch.setattr(Controller, "start", begin_slowly)
        starting = asyncio.create_task(machine.start())
        while True:
            with suppress(Unreachable):
                connection = await machine.connect()
                break
        assert not starting.done()
        answer = await connection.call(MetadataRequest(topics=None), MetadataResponse, version=9)
        assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [("orders", 20)]
        assert len(answer.brokers) == 1
        await starting
        await machine.stop()

    simulate(scenario)


def test_a_fetch_that_names_nothing_is_answered_at_once() -> None:
    """So a consumer closes its session."""

    async def scenario(network: SimNetwork) -> None:
        machine = SimBroker(network)
        await machine.start()
        connection = await machine.connect()
        before_s = machine.loop.time()
        request = FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, session_id=7, session_epoch=-1)
        answer = await connection.call(request, FetchResponse, version=FETCH_VERSION)
        assert answer.error_code == ErrorCode.NONE
        assert machine.loop.time() - before_s < 0.1
        await machine.stop()

    simulate(scenario)


def test_records_that_end_with_their_segment_are_not_waited_on() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine = SimBroker(network)
        await machine.start()
        connection = await machine.connect()
        await create(connection, "orders", segment_bytes="1000")
        for number in range(20):
            await produce(connection, "orders", b"x" * 100 + str(number).encode())
        before_s = machine.loop.time()
        request = fetch_request("orders", 0, max_wait_ms=5_000, min_bytes=100_000)
        answer = await connection.call(request, FetchResponse, version=FETCH_VERSION)
        assert answer.responses[0].partitions[0].records
        assert machine.loop.time() - before_s < 0.1
        await machine.stop()

    simulate(scenario)


def test_an_unknown_version_is_answered_in_its_turn() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine = SimBroker(network)
        await machine.start()
        connection = await machine.connect()
        await create(connection, "orders")
        order: list[str] = []

        async def wait() -> None:
            request = fetch_request("orders", 0, max_wait_ms=1_000)
            await connection.call(request, FetchResponse, version=FETCH_VERSION)
            order.append("fetch")

        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0.1)
        header = encode_request_header(ApiVersionsRequest.API_KEY, 99, 12345, "test")
        asked = asyncio.create_task(connection.exchange(struct.pack(">i", len(header)) + header))
        asked.add_done_callback(lambda _: order.append("versions"))
        await asyncio.gather(waiting, asked)
        assert order == ["fetch", "versions"]
        await machine.stop()

    simulate(scenario)


def test_a_disk_that_fails_on_a_cold_read_refuses_that_partition_alone() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine = SimBroker(network, settings=TWO_DIRECTORIES)
        broker = await machine.start()
        connection = await machine.connect()
        await create(connection, "orders", partitions=2)
        for partition in (0, 1):
            await produce(connection, "orders", b"x" * 50_000, partition=partition)
        log = broker.replicas.find("orders", 0).log
        assert log is not None
        machine.files.drop_caches()
        machine.files.fail("read", errno.EIO, path=f"{log.directory.path}/*")
        answer = await connection.call(fetch_request("orders", 0), FetchResponse, version=FETCH_VERSION)
        assert answer.responses[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert await read_all(connection, "orders", partition=1) == [b"x" * 50_000]
        assert log.is_offline
        machine.files.heal()
        await machine.stop()

    simulate(scenario)


@pytest.mark.parametrize("version", [10, 11, 12])
def test_a_topic_without_a_name_does_not_wedge_the_connection(version: int) -> None:
    async def scenario(network: SimNetwork) -> None:
        machine = SimBroker(network)
        await machine.start()
        connection = await machine.connect()
        request = MetadataRequest(topics=[MetadataRequestTopic(name="new"), MetadataRequestTopic(name=None)])
        try:
            await connection.call(request, MetadataResponse, version=version, timeout_s=5)
        except ConnectionError:
            connection = await machine.connect()
        answer = await connection.call(MetadataRequest(topics=None), MetadataResponse, version=9, timeout_s=5)
        assert len(answer.brokers) == 1
        await machine.stop()

    simulate(scenario)


def test_more_in_sync_replicas_are_never_asked_for_than_there_are_replicas() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine = SimBroker(network)
        await machine.start()
        connection = await machine.connect()
        await create(connection, "orders", min_insync_replicas="2")
        assert (await produce(connection, "orders", b"taken")).error_code == ErrorCode.NONE
        await machine.stop()

    simulate(scenario)


def test_a_client_is_told_the_address_of_the_listener_it_came_by() -> None:
    async def scenario(network: SimNetwork) -> None:
        settings = {
            "listeners": "INSIDE://broker:9092,OUTSIDE://broker:9192",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
            "advertised.listeners": "INSIDE://in.example:9092,OUTSIDE://out.example:9192",
        }
        machine = SimBroker(network, settings=settings)
        await machine.start()
        for port, host in ((9092, "in.example"), (9192, "out.example")):
            with network.as_node("client"):
                connection = await connect(Address("broker", port))
            answer = await connection.call(MetadataRequest(topics=None), MetadataResponse, version=9)
            assert [(broker.host, broker.port) for broker in answer.brokers] == [(host, port)]
        await machine.stop()

    simulate(scenario)
