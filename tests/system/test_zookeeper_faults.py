"""What becomes of a cluster's writes when ZooKeeper falls silent, dies, or loses its leader."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.system.cluster_process import SESSION_TIMEOUT_MS, ClusterProcess
from tests.system.command import Millstream
from tests.system.load import PARTITIONS, Load, check_all_there, until

#: How long writes may stop when only ZooKeeper fails: not at all, on a machine that is busy with other tests.
PAUSE_S_MAX = 2.0
#: A broker takes its claim to be controller back, if it can within two seconds.
STOP_S_MAX = 10.0


def pause_past_sessions(cluster: ClusterProcess) -> None:
    cluster.zookeepers[0].signal(signal.SIGSTOP)
    time.sleep(2 * SESSION_TIMEOUT_MS / 1000)
    cluster.zookeepers[0].signal(signal.SIGCONT)


def kill_and_restart(cluster: ClusterProcess) -> None:
    cluster.zookeepers[0].kill()
    time.sleep(1)
    cluster.zookeepers[0].start()
    cluster.zookeepers[0].wait()


def kill_leader(cluster: ClusterProcess) -> None:
    (leader,) = [server for server in cluster.zookeepers if server.mode() == "leader"]
    leader.kill()


def is_made(millstream: Millstream, topic: str) -> bool:
    """Make the topic, unless some brokers are not back yet; it may have been made by a call whose answer was lost."""
    try:
        millstream("topic", "create", topic, "--if-not-exists")
    except AssertionError as refused:
        if "brokers that are alive" not in str(refused):
            raise
        return False
    return True


def test_brokers_stop_in_good_order_while_zookeeper_is_away(tmp_path: Path) -> None:
    with ClusterProcess(tmp_path, count=2, settings={"controlled.shutdown.enable": "false"}) as cluster:
        Millstream(cluster.bootstrap)("topic", "create", "orders", "-r", 2)
        cluster.zookeepers[0].kill()
        for broker in cluster.brokers.values():
            began_s = time.monotonic()
            assert broker.stop() == 0
            assert time.monotonic() - began_s < STOP_S_MAX
            assert "Traceback" not in broker.output
            assert (broker.data / ".kafka_cleanshutdown").exists()


def test_a_cluster_without_its_zookeeper_has_no_controller_and_says_so(tmp_path: Path) -> None:
    with ClusterProcess(tmp_path, count=2) as cluster:
        millstream = Millstream(cluster.bootstrap)
        millstream("topic", "create", "orders", "-r", 2)
        millstream("cluster", "health", "--exit-when-healthy")
        cluster.zookeepers[0].kill()
        until("the brokers notice", lambda: millstream("cluster", "info", "-o", "json").document["controller"] is None)
        assert "(ZooKeeper) runs" in millstream("cluster", "health", code=1).output
        told = AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics(timeout=20)
        assert told.controller_id in cluster.brokers, "whoever is told of none waits long before asking again"
        cluster.zookeepers[0].start()
        cluster.zookeepers[0].wait()
        millstream("cluster", "health", "--exit-when-healthy")


@pytest.mark.parametrize(("zookeepers", "fault"), [(1, pause_past_sessions), (1, kill_and_restart), (3, kill_leader)])
def test_writes_go_on_while_zookeeper_fails_and_the_cluster_is_whole_after(
    tmp_path: Path, zookeepers: int, fault: Callable[[ClusterProcess], None]
) -> None:
    with ClusterProcess(tmp_path, zookeepers=zookeepers) as cluster:
        millstream = Millstream(cluster.bootstrap)
        millstream("topic", "create", "orders", "-p", PARTITIONS, "-r", 3)
        with Load(cluster.bootstrap).running() as load:
            until("writes begin", lambda: len(load.acknowledged) > 100)
            load.longest_s = 0.0
            fault(cluster)
            until("the controller decides again, for all brokers", lambda: is_made(millstream, "after"))
            assert load.count_after(1.0) > 0
            assert load.longest_s < PAUSE_S_MAX
            # It also elects others when a broker goes.
            cluster.brokers[1].kill()
            until("writes resume", lambda: load.count_after(0.2) > 0)
            cluster.brokers[1].start()
        check_all_there(load, cluster.bootstrap)
        assert not any("Traceback" in broker.output for broker in cluster.brokers.values())
