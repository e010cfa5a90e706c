"""Replication in a whole cluster: what is acknowledged is everywhere, and stays."""

from tests.simulation.asking import simulate
from tests.simulation.brokers import SimulatedCluster
from tests.simulation.network import SimNetwork
from tests.simulation.replicating import (
    all_hold,
    bytes_of,
    create,
    leader_id,
    read,
    replicas_of,
    until_in_sync,
    write,
)


def test_what_is_written_with_acks_all_is_on_every_replica() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = SimulatedCluster(network)
        await cluster.start()
        await create(cluster, min_insync_replicas="2")
        await until_in_sync(cluster, 1, 2, 3)
        for at in range(20):
            assert await write(cluster, b"%d" % at) == at
            for partition in replicas_of(cluster).values():
                assert partition.log is not None
                assert partition.log.end_offset == at + 1
        await cluster.until(all_hold(cluster, 20))
        logs = [bytes_of(partition) for partition in replicas_of(cluster).values()]
        assert logs[0]
        assert logs[0] == logs[1] == logs[2]
        assert await read(await cluster.connect(leader_id(cluster))) == [b"%d" % at for at in range(20)]
        await cluster.stop()

    simulate(scenario)
