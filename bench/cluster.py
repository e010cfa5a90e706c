"""The cluster's table: three brokers, three replicas, two in sync at least, every write acknowledged by all in sync."""

import os
import time
from collections.abc import Callable
from typing import cast

from bench import clusters, failover, outages, processes, runner
from bench.clusters import Cluster, Led
from bench.stages import Turn
from bench.table import LESS, MB, MB_PER_S, MILLIONS, MILLIS, MORE, SECONDS, THOUSANDS, Row

LIBRDKAFKA, RAW = "librdkafka, acks=all", "raw client, acks=all"
RATE = 500
ALL_IN_SYNC = -1


def _led(turn: Turn, name: str) -> tuple[Led, str]:
    """A new topic, and its leader."""
    cluster, topic = cast("Cluster", turn.server), turn.topic(name)
    clusters.create_topic(cluster, topic)
    return clusters.leader_of(cluster, topic), topic


def produce(turn: Turn) -> runner.Figures:
    figures = {}
    for key, records, size in (
        ("cluster_100", turn.sizes.small_records, 100),
        ("cluster_1k", turn.sizes.large_records, 1_000),
    ):
        leader, topic = _led(turn, f"p{size}")
        os.sync()  # Or the kernel brings to the disk during this turn what was written in the one before.
        done = runner.run("librdkafka_produce", leader, topic=topic, records=records // 4, bytes=size, acks=ALL_IN_SYNC)
        figures[key] = done["records_per_s" if size == 100 else "bytes_per_s"]
    return figures


def latency(turn: Turn) -> runner.Figures:
    leader, topic = _led(turn, "latency")
    seconds = turn.sizes.latency_s
    figures = runner.run("raw_latency", leader, topic=topic, rate=RATE, seconds=seconds, acks=ALL_IN_SYNC)
    return {"cluster_p50": figures["p50_us"], "cluster_p99": figures["p99_us"]}


def round_trips(turn: Turn) -> runner.Figures:
    leader, topic = _led(turn, "trips")
    requests = turn.sizes.round_trips // 2
    figures = runner.run("raw_round_trips", leader, topic=topic, requests=requests, acks=ALL_IN_SYNC)
    return {"cluster_trips": figures["requests_per_s"]}


def starts(turn: Turn) -> runner.Figures:
    """A cluster of its own: how long until it serves and the first topic is there, and what a broker takes."""
    cluster = cast("Cluster", turn.stand.new(turn.server.name))
    started = time.perf_counter()
    ready_s = cluster.start()
    clusters.create_topic(cluster, "first")
    up_s = time.perf_counter() - started
    largest = max(processes.resident_bytes(node.pid) for node in cluster.nodes.values())
    turn.stand.discard(cluster)
    return {"cluster_ready": ready_s, "cluster_up": up_s, "cluster_rss": largest}


STAGES: dict[str, Callable[[Turn], runner.Figures]] = {
    "cluster-produce": produce,
    "cluster-latency": latency,
    "cluster-round-trips": round_trips,
    "cluster-starts": starts,
    **outages.STAGES,
    **failover.STAGES,
}

ROWS = [
    Row("cluster_100", "produce, 100 B", LIBRDKAFKA, MILLIONS, MORE, of_kafka=1.4),
    Row("cluster_1k", "produce, 1 KB", LIBRDKAFKA, MB_PER_S, MORE, of_kafka=1.4),
    Row("cluster_p50", f"produce latency at {RATE}/s, p50", RAW, MILLIS, LESS, of_kafka=0.7),
    Row("cluster_p99", f"produce latency at {RATE}/s, p99", RAW, MILLIS, LESS, of_kafka=0.3),
    Row("cluster_trips", "round trips on one connection", RAW, THOUSANDS, MORE),
    Row("cluster_ready", "ready after start", "none", SECONDS, LESS, limit=5.0),
    Row("cluster_up", "up, and the first topic there", "librdkafka", SECONDS, LESS),
    Row("cluster_rss", "resident memory of a broker after start", "none", MB, LESS, limit=80e6),
    *outages.ROWS,
    *failover.ROWS,
]
