"""A broker joins a cluster in use and takes its share, while every write succeeds."""

import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from tests.system.cluster_process import ClusterProcess
from tests.system.command import Millstream

TOPIC = "orders"
PARTITIONS = 12


class Load:
    """Writes with acks=all until it is told to stop, and counts what became of it."""

    def __init__(self, bootstrap: str) -> None:
        self.delivered = 0
        self.failures: list[str] = []
        self._producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5})
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.is_set():
            for _ in range(20):
                self._producer.produce(TOPIC, bytes(500), on_delivery=self._told)
            self._producer.poll(0.01)
        self._producer.flush(30)

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.delivered += 1
        else:
            self.failures.append(str(error))

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()


def replicas_of(millstream: Millstream) -> dict[int, list[int]]:
    [described] = millstream("topic", "describe", TOPIC, "-o", "json").document
    rows: list[dict[str, Any]] = described["partitions"]
    return {row["partition"]: row["replicas"] for row in rows}


def test_a_fourth_broker_takes_its_share_under_load_and_no_write_fails(tmp_path: Path) -> None:
    with ClusterProcess(tmp_path) as cluster:
        millstream = Millstream(cluster.bootstrap)
        millstream("topic", "create", TOPIC, "-p", PARTITIONS, "-r", 3, "-c", "min.insync.replicas=2")
        before = replicas_of(millstream)
        load = Load(cluster.bootstrap)
        try:
            cluster.add(4).ready()
            plan = tmp_path / "plan.json"
            plan.write_text(millstream("reassign", "plan", "-o", "json").output)
            begun = load.delivered
            millstream("reassign", "execute", str(plan), "--wait")
            millstream("reassign", "verify", str(plan))
            delivered = load.delivered
            deadline_s = time.monotonic() + 30
            while load.delivered == delivered:
                assert time.monotonic() < deadline_s
                time.sleep(0.05)
        finally:
            load.stop()
        assert load.failures == []
        assert load.delivered > begun
        after = replicas_of(millstream)
        assert Counter(broker for replicas in after.values() for broker in replicas) == {1: 9, 2: 9, 3: 9, 4: 9}
        assert sum(len(set(after[key]) - set(before[key])) for key in after) == 9
        [described] = millstream("topic", "describe", TOPIC, "-o", "json").document
        assert sum(row["records"] for row in described["partitions"]) == load.delivered
        assert millstream("cluster", "health", "-o", "json").document["healthy"] is True
