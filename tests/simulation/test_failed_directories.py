"""Log directories that fail under a broker: what it gives up, whom it tells, and what is made of it when it is back."""

import asyncio
import errno

import pytest

from millstream.broker.coordinators import GROUPS, TRANSACTIONS
from millstream.controller.controller import Controller
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.protocol.messages.fetch import FetchResponse
from millstream.registry.nodes import BROKER, LIFE
from millstream.replication.role import Part
from tests.simulation.asking import FETCH_VERSION, create, fetch_request, produce, simulate
from tests.simulation.broker import SimBroker
from tests.simulation.brokers import SimulatedCluster
from tests.simulation.network import SimNetwork
from tests.simulation.test_broker import leaders
from tests.simulation.test_cluster_requests import started


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


async def is_clean(cluster: SimulatedCluster, broker_id: int) -> bool:
    """What a broker says of itself."""
    node = await cluster.members[broker_id].session.get(BROKER.path(broker_id))
    return BROKER.decode(node.data).is_clean


async def killed_and_started(cluster: SimulatedCluster, broker_id: int) -> None:
    await cluster.kill(broker_id)
    await asyncio.sleep(cluster.session_timeout_s + 1)
    await cluster.start(broker_id)


def test_a_loss_that_no_disk_can_note_is_known_when_the_broker_is_back() -> None:
    """Its only disk fails, takes nothing any more, and works again after a restart, without what it had not written."""

    async def scenario(network: SimNetwork) -> None:
        cluster, _, other = await started(network)
        await killed_and_started(cluster, other.id)
        assert await is_clean(cluster, other.id), "the machine has run all along"
        files = cluster.members[other.id].files
        files.fail("*", path="/data/a*")
        broker = cluster.broker(other.id)
        broker.logs.checkpoint({})
        assert broker.logs.directories[0].failure is not None
        await asyncio.sleep(1)
        files.heal()
        assert b"lost" not in files.read("/data/a/.millstream_kept")
        await killed_and_started(cluster, other.id)
        assert not await is_clean(cluster, other.id)
        await killed_and_started(cluster, other.id)
        assert await is_clean(cluster, other.id), "the cluster has heard of it"
        await cluster.stop()

    simulate(scenario)


def test_a_full_disk_has_lost_nothing() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster, _, other = await started(network)
        files = cluster.members[other.id].files
        files.fail("*", errno.ENOSPC, path="/data/a*")
        cluster.broker(other.id).logs.checkpoint({})
        await asyncio.sleep(1)
        files.heal()
        await killed_and_started(cluster, other.id)
        assert await is_clean(cluster, other.id)
        await cluster.stop()

    simulate(scenario)


def test_a_loss_is_told_though_the_session_ends_meanwhile() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster, _, other = await started(network)
        before = LIFE.decode((await other.registry.get(LIFE.path(other.id))).data)
        assert before == other.logs.life == 1
        cluster.members[other.id].files.fail("*", path="/data/a*")
        other.logs.checkpoint({})
        cluster.expire(other.id)
        await asyncio.sleep(5)
        assert LIFE.decode((await other.registry.get(LIFE.path(other.id))).data) > before + 1
        cluster.members[other.id].files.heal()
        await cluster.stop()

    simulate(scenario)


def test_a_second_broker_of_the_same_id_does_not_count_as_a_life() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster, _, other = await started(network)
        twin = SimBroker(network, settings={"broker.id": str(other.id)}, host="twin")
        twin._open_registry = cluster.members[other.id]._open_registry  # type: ignore[method-assign]
        session = cluster.members[other.id].session
        with pytest.raises(Exception, match="is taken by a running broker"):
            await twin.start()
        cluster.members[other.id].session = session
        assert LIFE.decode((await other.registry.get(LIFE.path(other.id))).data) == 1
        await cluster.stop()

    simulate(scenario)
