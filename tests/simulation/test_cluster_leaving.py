"""Brokers that stop, or may not join, while clients write, on virtual time: nobody waits for them."""

import asyncio

import pytest

from millstream.model.errors import ErrorCode
from millstream.protocol.messages.alter_partition import (
    AlterPartitionPartitionResult,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopicResult,
)
from tests.simulation.asking import simulate
from tests.simulation.brokers import SimulatedCluster
from tests.simulation.network import SimNetwork
from tests.simulation.replicating import create, in_sync, leader_id, until_in_sync, write


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("is_controller", [False, True])
def test_writes_go_on_at_once_when_their_leader_stops(seed: int, is_controller: bool) -> None:
    """Whoever left is not counted on, however fresh its last fetch, not even where nothing else happens meanwhile."""

    async def scenario(network: SimNetwork) -> None:
        cluster = SimulatedCluster(network, seed=seed)
        await cluster.start()
        controller = cluster.controller
        assert controller is not None
        await create(cluster, partitions=3, min_insync_replicas="2")
        index = next(at for at in range(3) if (leader_id(cluster, at) == controller.id) is is_controller)
        leader = leader_id(cluster, index)
        await until_in_sync(cluster, 1, 2, 3, index=index)
        stopping = asyncio.create_task(cluster.stop(leader))
        longest_s = 0.0
        for at in range(40):
            before_s = asyncio.get_running_loop().time()
            await write(cluster, b"%d" % at, index=index)
            longest_s = max(longest_s, asyncio.get_running_loop().time() - before_s)
        await stopping
        assert longest_s < 0.5
        await cluster.stop()

    simulate(scenario, seed)


def test_a_write_no_longer_waits_for_a_replica_that_may_not_join() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = SimulatedCluster(network)
        await cluster.start()
        await create(cluster, min_insync_replicas="2")
        leader = cluster.broker(leader_id(cluster))
        absent = next(broker.id for broker in cluster.running if broker not in (leader, cluster.controller))
        await cluster.kill(absent)
        await cluster.until(lambda: absent not in in_sync(cluster))

        async def refuse(request: AlterPartitionRequest) -> AlterPartitionResponse:
            """As for a broker that leaves, which the controller knows and the leader does not."""
            network.cut(leader_host, f"broker-{absent}")  # So that it does not fetch on.
            await asyncio.sleep(1)
            rows = [
                AlterPartitionPartitionResult(
                    partition_index=row.partition_index, error_code=ErrorCode.INELIGIBLE_REPLICA
                )
                for row in request.topics[0].partitions
            ]
            topic = AlterPartitionTopicResult(topic_id=request.topics[0].topic_id, partitions=rows)
            return AlterPartitionResponse(topics=[topic])

        leader_host = f"broker-{leader.id}"
        leader.replication.in_sync._alter = refuse
        starting = asyncio.create_task(cluster.start(absent))
        await cluster.until(lambda: network.is_cut(leader_host, f"broker-{absent}"))
        before_s = asyncio.get_running_loop().time()
        await write(cluster, b"committed")
        assert 0.5 < asyncio.get_running_loop().time() - before_s < 1.2
        network.heal()
        await starting
        await cluster.stop()

    simulate(scenario)
