"""What the loss of a broker costs: a cluster of its own is struck while it is written to."""

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from bench import clusters, runner
from bench.clusters import Cluster
from bench.stages import Turn
from bench.table import LESS, SECONDS, Row

LIBRDKAFKA = "librdkafka, acks=all"
#: How long a writer goes on after a broker was struck; Kafka's are silent for nine seconds and more.
WATCHED_S = 20.0
BEFORE_S = 2.0
#: A silent broker's clients wait for it, librdkafka for up to a minute.  One that does not measures the servers.
IMPATIENT_MS = 1_000
#: After this long a silence ZooKeeper takes a broker for dead, and Millstream's default.
ZOOKEEPER_TIMEOUT_S = 6.0
TOPICS_MAX = 20


@dataclass(frozen=True)
class Strike:
    """Who is struck, and with what."""

    signal_number: int
    is_leader: bool = True
    is_controller: bool = False
    #: How long the client waits for an answer; 0 for as long as librdkafka does by itself.
    timeout_ms: int = 0


STRIKES = {
    "kill": Strike(signal.SIGKILL),
    "kill_controller": Strike(signal.SIGKILL, is_controller=True),
    "pause": Strike(signal.SIGSTOP, timeout_ms=IMPATIENT_MS),
    "pause_controller": Strike(signal.SIGSTOP, is_controller=True, timeout_ms=IMPATIENT_MS),
    "pause_follower": Strike(signal.SIGSTOP, is_leader=False, timeout_ms=IMPATIENT_MS),
    "shutdown": Strike(signal.SIGTERM),
}


def outage(key: str) -> Callable[[Turn], runner.Figures]:
    """A stage that strikes a broker, on a cluster of its own, while a topic is written to."""

    def stage(turn: Turn) -> runner.Figures:
        strike = STRIKES[key]
        cluster = cast("Cluster", turn.stand.new(turn.server.name))
        cluster.start()
        topic = _topic(cluster, turn.topic("struck"), strike)
        load = runner.begin("librdkafka_outage", cluster, topic=topic, seconds=WATCHED_S, timeout_ms=strike.timeout_ms)
        try:
            assert load.stdout is not None
            load.stdout.readline()  # It has begun.
            time.sleep(BEFORE_S)
            clusters.strike(cluster.nodes[_struck(cluster, topic, strike)], strike.signal_number)
            figures = runner.finish(load)
        finally:
            if load.poll() is None:
                runner.end(load)
        turn.stand.discard(cluster)
        return {key: figures["longest_s"], f"{key}_failed": figures["failures"]}

    return stage


def _topic(cluster: Cluster, name: str, strike: Strike) -> str:
    """A new topic; where its leader is to be struck, one that the controller leads, or does not."""
    controller = clusters.controller_of(cluster)
    for at in range(TOPICS_MAX):
        topic = f"{name}-{at}"
        clusters.create_topic(cluster, topic)
        is_led_by_controller = clusters.leader_of(cluster, topic).broker_id == controller
        if not strike.is_leader or is_led_by_controller is strike.is_controller:
            return topic
    raise RuntimeError(f"{TOPICS_MAX} topics were all led by the same broker")


def _struck(cluster: Cluster, topic: str, strike: Strike) -> int:
    leader = clusters.leader_of(cluster, topic).broker_id
    if strike.is_leader:
        return leader
    return next(iter(cluster.nodes.keys() - {leader, clusters.controller_of(cluster)}))


STAGES: dict[str, Callable[[Turn], runner.Figures]] = {
    f"cluster-{key.replace('_', '-')}": outage(key) for key in STRIKES
}


def _rows(key: str, name: str, limit_s: float, failures_max: float | None = None) -> list[Row]:
    timeout_ms = STRIKES[key].timeout_ms
    patience = f", time-outs of {timeout_ms / 1e3:g} s, asks who leads every {timeout_ms / 4e3:g} s"
    load = LIBRDKAFKA + (patience if timeout_ms else "")
    return [
        Row(key, f"{name}: writes stop for", load, SECONDS, LESS, limit=limit_s),
        Row(f"{key}_failed", "its failed writes", load, (1.0, "{:.0f}"), LESS, limit=failures_max),
    ]


ROWS = [
    *_rows("kill", "leader killed", 1.5),
    *_rows("kill_controller", "leader that is controller killed", 1.5),
    *_rows("pause", "leader paused (SIGSTOP)", ZOOKEEPER_TIMEOUT_S + 1),
    *_rows("pause_controller", "leader that is controller paused", ZOOKEEPER_TIMEOUT_S + 1),
    *_rows("pause_follower", "follower paused (SIGSTOP)", ZOOKEEPER_TIMEOUT_S + 1),
    *_rows("shutdown", "leader stopped (SIGTERM)", 0.5, failures_max=0.0),
]
