"""Log directories that fail under a broker: what it gives up, whom it tells, and what is made of it when it is back."""

import asyncio
import errno

import pytest

from millstream.broker.coordinators import GROUPS, TRANSACTIONS
from millstream.controller.controller import Controller
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.protocol.messages.fetch import FetchResponse
from millstream.replication.role import Part
from tests.simulation.asking import FETCH_VERSION, create, fetch_request, produce, simulate
from tests.simulation.broker import SimBroker
from tests.simulation.network import SimNetwork
from tests.simulation.test_broker import leaders


def test_a_broker_has_no_part_in_what_lay_in_a_directory_that_failed() -> None:
    async def scenario(network: SimNetwork) -> None:
        machine = SimBroker(network)
        broker = await machine.start()
        connection = await machine.connect()
        await create(connection, "orders")
        for topic in (GROUPS, TRANSACTIONS):
            await broker.coordinators.ensure(topic)
        coordinators = (broker.groups, broker.coordinators.transactions)
        assert all(any(each.shards()) for each in coordinators)
        machine.files.fail("append", path="/data/a/orders*")
        for _ in range(2):
            assert (await produce(connection, "orders", b"lost")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        read = await connection.call(fetch_request("orders", 0), FetchResponse, version=FETCH_VERSION)
        assert read.responses[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        for each in coordinators:
            with pytest.raises(ProtocolError, match="NOT_COORDINATOR"):
                each.shard_for("somebody")
        assert all(partition.role.part is Part.IDLE for partition in broker.replicas)
        machine.files.heal()
        await machine.stop()

    simulate(scenario)


def test_a_directory_that_fails_while_the_broker_starts_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = Controller.start

    async def scenario(network: SimNetwork) -> None:
        machine = SimBroker(network)
        await machine.start()
        await create(await machine.connect(), "orders")
        await machine.stop()

        async def begin_and_fail(controller: Controller) -> None:
            await begin(controller)
            assert machine.broker is not None
            machine.broker.logs.directories[0].fail(OSError(errno.EIO, "it is gone"))

        monkeypatch.setattr(Controller, "start", begin_and_fail)
        await machine.start()
        await asyncio.sleep(1)
        assert await leaders(await machine.connect(), "orders") == {0: (ErrorCode.LEADER_NOT_AVAILABLE, -1, [0])}
        await machine.stop()

    simulate(scenario)
