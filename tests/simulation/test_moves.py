"""Replicas that move between the log directories of a broker while they are written to."""

import asyncio

import pytest

from millstream.broker.broker import Broker
from millstream.client.wire import Connection
from millstream.model.errors import ErrorCode
from millstream.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from millstream.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from millstream.storage.moving import FUTURE_SUFFIX
from tests.simulation.asking import create, produce, read_all, simulate
from tests.simulation.broker import SimBroker
from tests.simulation.brokers import SimulatedCluster
from tests.simulation.network import SimNetwork
from tests.simulation.replicating import (
    all_hold,
    bytes_of,
    leader_id,
    leader_of,
    other_than,
    replicas_of,
    until_in_sync,
    write,
)
from tests.simulation.replicating import create as create_replicated

DIRECTORIES = {"log.dirs": "/data/a,/data/b"}
VALUES = [b"%d" % at * 300 for at in range(60)]


async def move(connection: Connection, path: str, topic: str = "orders", partition: int = 0) -> ErrorCode:
    wanted = AlterReplicaLogDirTopic(name=topic, partitions=[partition])
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[wanted])])
    answer = await connection.call(request, AlterReplicaLogDirsResponse)
    return ErrorCode(answer.results[0].partitions[0].error_code)


def where(broker: Broker) -> str:
    log = broker.replicas.find("orders", 0).log
    assert log is not None
    return log.directory.path


def other(path: str) -> str:
    return "/data/b" if path == "/data/a" else "/data/a"


async def until_at(broker: Broker, path: str) -> None:
    for _ in range(1_000):
        if where(broker) == path:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"it never came to {path}")


@pytest.mark.parametrize("power", [None, False, True])
def test_a_log_moves_while_it_is_written_to_and_holds_everything_there(power: bool | None) -> None:
    async def scenario(network: SimNetwork) -> None:
        sim = SimBroker(network, settings=DIRECTORIES, delay_ms_max=2)
        broker = await sim.start()
        connection = await sim.connect()
        await create(connection, "orders", segment_bytes="4000", flush_messages="1")
        for value in VALUES[:30]:
            await produce(connection, "orders", value)
        target = other(where(broker))
        assert await move(connection, target) is ErrorCode.NONE
        for value in VALUES[30:]:
            await produce(connection, "orders", value)
        await until_at(broker, target)
        assert await read_all(connection, "orders") == VALUES
        await (sim.stop() if power is None else sim.crash(power=power))
        broker = await sim.start()
        assert where(broker) == target
        connection = await sim.connect()
        assert await read_all(connection, "orders") == VALUES
        assert (await produce(connection, "orders", b"more")).base_offset == len(VALUES)
        await sim.stop()

    simulate(scenario)


def test_a_move_is_shown_until_it_is_done_and_given_up_when_it_is_taken_back() -> None:
    async def scenario(network: SimNetwork) -> None:
        sim = SimBroker(network, settings=DIRECTORIES, delay_ms_max=50)
        broker = await sim.start()
        connection = await sim.connect()
        await create(connection, "orders", segment_bytes="2000")
        for value in VALUES:
            await produce(connection, "orders", value)
        home = where(broker)
        assert await move(connection, other(home)) is ErrorCode.NONE
        await asyncio.sleep(0.01)
        shown = await connection.call(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
        future = {
            each.log_dir: [row.is_future_key for topic in each.topics for row in topic.partitions]
            for each in shown.results
        }
        assert future == {home: [False], other(home): [True]}
        assert await move(connection, home) is ErrorCode.NONE
        await asyncio.sleep(5)
        assert (where(broker), broker.moves.copies) == (home, {})
        assert not any(FUTURE_SUFFIX in path for path in sim.files.paths())
        assert await read_all(connection, "orders") == VALUES
        await sim.stop()

    simulate(scenario)


def test_what_cannot_be_moved_is_refused() -> None:
    async def scenario(network: SimNetwork) -> None:
        sim = SimBroker(network, settings=DIRECTORIES)
        await sim.start()
        connection = await sim.connect()
        await create(connection, "orders")
        assert await move(connection, "/data/c") is ErrorCode.LOG_DIR_NOT_FOUND
        assert await move(connection, "/data/a", partition=7) is ErrorCode.REPLICA_NOT_AVAILABLE
        await sim.stop()

    simulate(scenario)


def test_leaders_and_followers_move_without_losing_their_place() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = SimulatedCluster(network, settings=DIRECTORIES)
        await cluster.start()
        await create_replicated(cluster, min_insync_replicas="2")
        await until_in_sync(cluster, 1, 2, 3)
        for value in VALUES[:20]:
            await write(cluster, value)
        follower = other_than(cluster, leader_id(cluster)).id
        for broker_id in (leader_id(cluster), follower):
            broker = cluster.broker(broker_id)
            target = other(where(broker))
            connection = await cluster.connect(broker_id)
            assert await move(connection, target) is ErrorCode.NONE
            await until_at(broker, target)
            await write(cluster, b"after %d" % broker_id)
        await until_in_sync(cluster, 1, 2, 3)
        leader = leader_of(cluster)
        assert leader is not None and leader.log is not None
        await cluster.until(all_hold(cluster, leader.log.end_offset))
        assert len({bytes_of(partition) for partition in replicas_of(cluster).values()}) == 1
        await cluster.stop()

    simulate(scenario)
