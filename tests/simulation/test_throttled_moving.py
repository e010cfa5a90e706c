"""Replicas that catch up no faster than they are let, and writers who do not notice."""

import asyncio

import pytest

from millstream.model.errors import ErrorCode
from millstream.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.simulation.asking import simulate
from tests.simulation.brokers import SimulatedCluster
from tests.simulation.network import SimNetwork
from tests.simulation.replicating import TOPIC, create, in_sync, leader_id, other_than, replicas_of, write
from tests.simulation.test_moving import move, moves, until_moved

TOPIC_KIND, BROKER_KIND = 2, 4
RATE = 100_000
RECORD_BYTES = 20_000
RECORDS = 100


async def set_config(cluster: SimulatedCluster, kind: int, name: str, key: str, value: str) -> None:
    connection = await cluster.connect(int(name) if kind == BROKER_KIND and name else cluster.running[0].id)
    resource = AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=[AlterableConfig(name=key, config_operation=0, value=value)]
    )
    answer = await connection.call(
        IncrementalAlterConfigsRequest(resources=[resource]), IncrementalAlterConfigsResponse
    )
    assert answer.responses[0].error_code == ErrorCode.NONE, answer.responses[0].error_message
    connection.close()


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttled_move_takes_its_time_and_writes_do_not(side: str) -> None:
    async def scenario(network: SimNetwork) -> None:
        loop = asyncio.get_running_loop()
        cluster = SimulatedCluster(network, count=4, settings={"replica.fetch.max.bytes": "50000"})
        await cluster.start()
        await create(cluster, replicas=3, min_insync_replicas="2")
        for number in range(RECORDS):
            await write(cluster, bytes([number]) * RECORD_BYTES)
        before = list(replicas_of(cluster))
        newcomer = other_than(cluster, *before).id
        throttled = leader_id(cluster) if side == "leader" else newcomer
        await set_config(cluster, TOPIC_KIND, TOPIC, f"{side}.replication.throttled.replicas", f"0:{throttled}")
        await set_config(cluster, BROKER_KIND, str(throttled), f"{side}.replication.throttled.rate", str(RATE))
        await asyncio.sleep(1)
        begun_s = loop.time()
        stays = [number for number in before if number != leader_id(cluster)]
        assert await move(cluster, [leader_id(cluster), *stays[:1], newcomer]) is ErrorCode.NONE
        await asyncio.sleep(5)
        assert newcomer not in in_sync(cluster) and await moves(cluster)
        written_s = loop.time()
        await write(cluster, b"meanwhile")
        assert loop.time() - written_s < 0.5, "those in sync are not held back"
        await cluster.until(lambda: newcomer in in_sync(cluster), timeout_s=60)
        took_s = loop.time() - begun_s
        assert 0.8 < took_s * RATE / (RECORDS * RECORD_BYTES) < 1.5
        await until_moved(cluster, leader_id(cluster), stays[0], newcomer)
        await cluster.stop()

    simulate(scenario)
