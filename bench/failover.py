"""A broker that leads a thousand partitions is killed: how long until each of them has another leader."""

import signal
import time
from collections.abc import Callable
from typing import cast

from confluent_kafka import KafkaError, Message, Producer

from bench import clusters, messages, processes, runner, wire
from bench.clusters import Cluster
from bench.stages import Turn
from bench.table import LESS, SECONDS, Row

PARTITIONS = 1_000
LOOK_EVERY_S = 0.02
TIMEOUT_S = 120.0
#: librdkafka sends a request for each partition, and Apache Kafka answers one after the other: that may take a while.
WRITER_TIMEOUT_MS, WRITER_ASKS_MS = 120_000, 250


class Writer:
    """Writes a record to each partition, with patience, and notes when the last of them was acknowledged."""

    def __init__(self, cluster: Cluster, topic: str, partitions: int) -> None:
        self._topic, self._partitions = topic, partitions
        self._acknowledged = 0
        self._last_s = 0.0
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.address,
                "acks": "all",
                "request.timeout.ms": WRITER_TIMEOUT_MS,
                "socket.timeout.ms": WRITER_TIMEOUT_MS,
                "topic.metadata.refresh.interval.ms": WRITER_ASKS_MS,
                "log_level": 0,  # It would tell of the broker that we killed.
            }
        )

    def begin(self) -> None:
        self._acknowledged = 0
        for partition in range(self._partitions):
            self._producer.produce(self._topic, b"v", partition=partition, on_delivery=self._delivered)

    def look(self) -> None:
        """Take note of what was acknowledged meanwhile."""
        self._producer.poll(0)

    def finish(self) -> float:
        """When the last record was acknowledged, on ``time.perf_counter``."""
        self._producer.flush(TIMEOUT_S)
        if self._acknowledged < self._partitions:
            raise runner.LoadFailed(f"{self._acknowledged} of {self._partitions} partitions took a record")
        return self._last_s

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self._acknowledged += 1
            self._last_s = time.perf_counter()


def failover(key: str, *, is_controller: bool) -> Callable[[Turn], runner.Figures]:
    """A stage that kills the leader of all partitions, on a cluster of its own."""

    def stage(turn: Turn) -> runner.Figures:
        processes.raise_file_limit()
        cluster = cast("Cluster", turn.stand.new(turn.server.name))
        cluster.start()
        topic = turn.topic("many")
        controller = clusters.controller_of(cluster)
        struck = controller if is_controller else next(iter(cluster.nodes.keys() - {controller}))
        one, other = cluster.nodes.keys() - {struck}
        homes = [[struck, one, other], [struck, other, one]]
        clusters.create_topic(cluster, topic, PARTITIONS, homes=[homes[at % 2] for at in range(PARTITIONS)])
        figures = _strike(cluster, struck, topic, Writer(cluster, topic, PARTITIONS))
        turn.stand.discard(cluster)
        return {f"{key}{name}": figure_s for name, figure_s in figures.items()}

    return stage


def _strike(cluster: Cluster, struck: int, topic: str, writer: Writer) -> runner.Figures:
    """Seconds from the kill until a partition, and until each, is led by a live broker, as each of those says."""
    writer.begin()
    writer.finish()
    survivors = {number: node for number, node in cluster.nodes.items() if number != struck}
    connections = [wire.Connection(node.address) for node in survivors.values()]
    first_s = 0.0
    started = time.perf_counter()
    clusters.strike(cluster.nodes[struck], signal.SIGKILL)
    writer.begin()
    try:
        while True:
            views = [messages.partitions_of(each, topic) for each in connections]
            led = [partition.leader_id in survivors for view in views for partition in view]
            now_s = time.perf_counter() - started
            if not first_s and any(led):
                first_s = now_s
            if all(led):
                break
            if now_s > TIMEOUT_S:
                raise TimeoutError(f"after {TIMEOUT_S} s {led.count(False)} of {len(led)} have no live leader")
            writer.look()
            time.sleep(LOOK_EVERY_S)
    finally:
        for connection in connections:
            connection.close()
    return {"": now_s, "_first": first_s, "_written": writer.finish() - started}


STAGES: dict[str, Callable[[Turn], runner.Figures]] = {
    "cluster-failover-partitions": failover("failover", is_controller=False),
    "cluster-failover-controller": failover("failover_controller", is_controller=True),
}


def _rows(key: str, who: str) -> list[Row]:
    asked, written = "raw Metadata requests", f"librdkafka, acks=all, asks who leads every {WRITER_ASKS_MS / 1e3:g} s"
    return [
        Row(key, f"{who} of {PARTITIONS:,} partitions killed: all led again after", asked, SECONDS, LESS, limit=3.0),
        Row(f"{key}_first", "of that, until the first is", asked, SECONDS, LESS, of_kafka=None),
        Row(f"{key}_written", "until each was written to", written, SECONDS, LESS),
    ]


ROWS = [*_rows("failover", "leader"), *_rows("failover_controller", "leader that is controller")]
