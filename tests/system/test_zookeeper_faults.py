"""What becomes of a cluster's writes when ZooKeeper falls silent, dies, or loses its leader."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.system.cluster_process import SESSION_TIMEOUT_MS, ClusterProcess
from tests.system.command import Millstream

PARTITIONS = 6
TIMEOUT_S = 40.0
#: How long writes may stop when only ZooKeeper fails: not at all, on a machine that is busy with other tests.
PAUSE_S_MAX = 2.0
#: A broker takes its claim to be controller back, if it can within two seconds.
STOP_S_MAX = 10.0


class Load:
    """Writes with acks=all, a few hundred a second; what was acknowledged, and the longest it took to be."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.refused: list[KafkaError] = []
        self.longest_s = 0.0
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 1, "log_level": 0}
        )
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        number = 0
        while not self._ends.wait(0.004):
            began_s = time.monotonic()

            def delivered(error: KafkaError | None, message: Message, began_s: float = began_s) -> None:
                if error is not None:
                    self.refused.append(error)
                    return
                partition, offset, value = message.partition(), message.offset(), message.value()
                assert partition is not None and offset is not None and value is not None
                self.acknowledged[partition, offset] = value
                self.longest_s = max(self.longest_s, time.monotonic() - began_s)

            self._producer.produce("orders", str(number).encode(), partition=number % PARTITIONS, on_delivery=delivered)
            self._producer.poll(0)
            number += 1

    def count_after(self, seconds: float) -> int:
        """How many were acknowledged in the time to come."""
        before = len(self.acknowledged)
        time.sleep(seconds)
        return len(self.acknowledged) - before

    @contextmanager
    def running(self) -> Iterator["Load"]:
        self._thread.start()
        try:
            yield self
        finally:
            self._ends.set()
            self._thread.join()
            assert self._producer.flush(TIMEOUT_S) == 0


def check_all_there(load: Load, bootstrap: str) -> None:
    """Every write that was acknowledged is where it was said to be, and none was refused."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "check", "log_level": 0})
    found: dict[tuple[int, int], bytes] = {}
    try:
        consumer.assign([TopicPartition("orders", number, 0) for number in range(PARTITIONS)])
        deadline_s = time.monotonic() + TIMEOUT_S
        while not found.keys() >= load.acknowledged.keys() and time.monotonic() < deadline_s:
            for message in consumer.consume(1000, 0.5):
                partition, offset, value = message.partition(), message.offset(), message.value()
                if message.error() is None and partition is not None and offset is not None and value is not None:
                    found[partition, offset] = value
    finally:
        consumer.close()
    assert {place: found.get(place) for place in load.acknowledged} == load.acknowledged
    assert load.refused == []
    assert len(set(found.values())) == len(found), "a write is there twice"


def until(what: str, is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not is_so():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.05)


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
            millstream("topic", "create", "after")  # The controller decides again.
            assert load.count_after(1.0) > 0
            assert load.longest_s < PAUSE_S_MAX
            # It also elects others when a broker goes.
            cluster.brokers[1].kill()
            until("writes resume", lambda: load.count_after(0.2) > 0)
            cluster.brokers[1].start()
        check_all_there(load, cluster.bootstrap)
        assert not any("Traceback" in broker.output for broker in cluster.brokers.values())
