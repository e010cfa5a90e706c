"""The cluster that is benchmarked: one of its brokers goes and comes back, and all of them are gone at the end."""

import time
from pathlib import Path

from bench import clusters, messages, processes, wire

TIMEOUT_S = 60.0


def test_a_broker_that_was_stopped_is_started_again_and_ends_with_the_rest(tmp_path: Path) -> None:
    cluster = clusters.MillstreamCluster(tmp_path / "cluster", {})
    try:
        cluster.start()
        clusters.create_topic(cluster, "read", 2, homes=[[1, 2, 3], [2, 1, 3]])
        assert [clusters.leader_of(cluster, "read", at).broker_id for at in range(2)] == [1, 2]
        before = cluster.nodes[3]
        cluster.stop_one(3)
        assert in_sync(cluster, "read") == [{1, 2}, {1, 2}]
        cluster.start_one(3)
        assert cluster.nodes[3].pid != before.pid
        deadline = time.monotonic() + TIMEOUT_S
        while in_sync(cluster, "read") != [{1, 2, 3}] * 2:
            assert time.monotonic() < deadline, "the broker that came back is not in sync"
            time.sleep(0.05)
    finally:
        pids = [node.pid for node in cluster.nodes.values()]
        cluster.kill()
    for pid in pids:
        processes.await_end(pid, TIMEOUT_S)


def in_sync(cluster: clusters.Cluster, topic: str) -> list[set[int]]:
    """Who is in sync, as broker 1 knows it."""
    with wire.Connection(cluster.nodes[1].address) as connection:
        return [set(partition.isr_nodes) for partition in messages.partitions_of(connection, topic)]
