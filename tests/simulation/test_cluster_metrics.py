"""What a cluster's brokers tell of its partitions, as some of them go."""

from millstream.broker.broker import Broker
from millstream.metrics import table
from millstream.metrics.metric import Metric
from tests.simulation.asking import simulate
from tests.simulation.brokers import SimulatedCluster
from tests.simulation.network import SimNetwork
from tests.simulation.replicating import create, in_sync, leader_id, until_in_sync


def told(broker: Broker, metric: Metric) -> float:
    ((_, value),) = broker.metrics.values(metric)
    return value


def summed(cluster: SimulatedCluster, metric: Metric) -> float:
    return sum(told(broker, metric) for broker in cluster.running)


def test_brokers_tell_what_is_short_of_replicas_and_the_controller_what_has_no_leader() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = SimulatedCluster(network)
        await cluster.start()
        await create(cluster, min_insync_replicas="2")
        assert summed(cluster, table.ACTIVE_CONTROLLER_COUNT) == 1
        assert summed(cluster, table.GLOBAL_TOPIC_COUNT) == summed(cluster, table.GLOBAL_PARTITION_COUNT) == 1
        for metric in (
            table.UNDER_REPLICATED_PARTITIONS,
            table.UNDER_MIN_ISR_PARTITION_COUNT,
            table.AT_MIN_ISR_PARTITION_COUNT,
            table.OFFLINE_PARTITIONS_COUNT,
            table.PREFERRED_REPLICA_IMBALANCE_COUNT,
            table.REASSIGNING_PARTITIONS,
        ):
            assert summed(cluster, metric) == 0, metric.name
        first = leader_id(cluster)
        await cluster.kill(first)
        await cluster.until(lambda: len(in_sync(cluster)) == 2 and leader_id(cluster) not in (first, -1))
        assert summed(cluster, table.UNDER_REPLICATED_PARTITIONS) == 1
        assert summed(cluster, table.AT_MIN_ISR_PARTITION_COUNT) == 1
        assert summed(cluster, table.UNDER_MIN_ISR_PARTITION_COUNT) == 0
        await cluster.until(lambda: summed(cluster, table.PREFERRED_REPLICA_IMBALANCE_COUNT) == 1)
        second = leader_id(cluster)
        await cluster.kill(second)
        await cluster.until(lambda: len(in_sync(cluster)) == 1 and leader_id(cluster) not in (second, -1))
        assert summed(cluster, table.UNDER_MIN_ISR_PARTITION_COUNT) == 1
        assert summed(cluster, table.ACTIVE_CONTROLLER_COUNT) == 1
        await cluster.members[first].start()
        await cluster.members[second].start()
        await until_in_sync(cluster, 1, 2, 3)
        assert summed(cluster, table.UNDER_REPLICATED_PARTITIONS) == 0
        await cluster.stop()

    simulate(scenario)


def test_a_partition_without_a_live_replica_is_offline() -> None:
    async def scenario(network: SimNetwork) -> None:
        cluster = SimulatedCluster(network)
        await cluster.start()
        await create(cluster, replicas=1)
        holder = leader_id(cluster)
        await cluster.kill(holder)
        await cluster.until(lambda: summed(cluster, table.OFFLINE_PARTITIONS_COUNT) == 1)
        await cluster.members[holder].start()
        await cluster.until(lambda: summed(cluster, table.OFFLINE_PARTITIONS_COUNT) == 0)
        await cluster.stop()

    simulate(scenario)
