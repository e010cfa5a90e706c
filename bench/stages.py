"""The stages of the main table: each drives one server once and gives figures for some of its rows."""

import os
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.compatibility import apache_kafka

from bench import processes, runner, wire
from bench.servers import Server, Stand, await_writable
from bench.table import CEILING

JOIN_GROUP = 11
GB = 1_000_000_000


@dataclass(frozen=True)
class Sizes:
    """How much each load does."""

    small_records: int
    large_records: int
    requests: int
    round_trips: int
    latency_s: float
    java_records: int
    java_latencies: int
    commits: int
    transactions: int


FULL = Sizes(5_000_000, 2_000_000, 60_000, 20_000, 5.0, 3_000_000, 5_000, 20_000, 2_000)
QUICK = Sizes(1_000_000, 300_000, 10_000, 5_000, 2.0, 500_000, 1_000, 5_000, 500)
WARM_UP = Sizes(1_000_000, 0, 20_000, 10_000, 3.0, 0, 0, 0, 0)
QUICK_WARM_UP = Sizes(300_000, 0, 5_000, 3_000, 1.0, 0, 0, 0, 0)


@dataclass(frozen=True)
class Turn:
    """One server's turn in one round."""

    stand: Stand
    server: Server
    sizes: Sizes
    label: str

    def topic(self, name: str) -> str:
        return f"{name}-{self.label}"

    def clear(self) -> None:
        """Free the disk of what this turn wrote: a run would fill it otherwise, and no one reads it again.

        From outside, and alike for all: the servers delete a minute late, or not at all.
        """
        for log in [*self.server.data.glob(f"*-{self.label}-0.log"), *self.server.data.glob(f"*-{self.label}-0/*.log")]:
            os.truncate(log, 0)


def small_records(turn: Turn) -> runner.Figures:
    records, topic = turn.sizes.small_records, turn.topic("small")
    produced = runner.run("librdkafka_produce", turn.server, topic=topic, records=records, bytes=100)
    consumed = runner.run("librdkafka_consume", turn.server, topic=topic, records=records, bytes=100)
    return {"produce_100": produced["records_per_s"], "consume_100": consumed["records_per_s"]}


def large_records(turn: Turn) -> runner.Figures:
    records, topic = turn.sizes.large_records, turn.topic("large")
    before_s = processes.cpu_s(turn.server.pid)
    produced = runner.run("librdkafka_produce", turn.server, topic=topic, records=records, bytes=1_000)
    consumed = runner.run("librdkafka_consume", turn.server, topic=topic, records=records, bytes=1_000)
    used_s = processes.cpu_s(turn.server.pid) - before_s
    return {
        "produce_1k": produced["bytes_per_s"],
        "consume_1k": consumed["bytes_per_s"],
        "cpu": used_s * 2 * GB / (records * 1_000),
    }


def requests(turn: Turn) -> runner.Figures:
    figures = runner.run("raw_requests", turn.server, topic=turn.topic("requests"), requests=turn.sizes.requests)
    return {"requests": figures["requests_per_s"]}


def round_trips(turn: Turn) -> runner.Figures:
    figures = runner.run("raw_round_trips", turn.server, topic=turn.topic("trips"), requests=turn.sizes.round_trips)
    return {"round_trips": figures["requests_per_s"]}


def latency(turn: Turn) -> runner.Figures:
    figures = runner.run("raw_latency", turn.server, topic=turn.topic("latency"), seconds=turn.sizes.latency_s)
    return {"latency_p50": figures["p50_us"], "latency_p99": figures["p99_us"]}


def end_to_end(turn: Turn) -> runner.Figures:
    figures = runner.run("raw_end_to_end", turn.server, topic=turn.topic("end"), seconds=turn.sizes.latency_s)
    return {"end_to_end_p50": figures["p50_us"], "end_to_end_p99": figures["p99_us"]}


def neighbour(turn: Turn) -> runner.Figures:
    """Latency of a small producer while another streams 16 KB requests, five in flight, as Java's producer does."""
    return _beside(turn, "neighbour", "raw_fill", bytes=1_000 * GB, batch_records=16, in_flight=5)


def bulk_neighbour(turn: Turn) -> runner.Figures:
    """The same beside requests of up to 1 MB, as librdkafka sends them at full speed."""
    return _beside(turn, "bulk", "librdkafka_produce", records=10**9, bytes=1_000)


def _beside(turn: Turn, key: str, load: str, **options: float) -> runner.Figures:
    seconds = turn.sizes.latency_s
    loud = runner.begin(load, turn.server, topic=turn.topic(f"{key}-loud"), seconds=seconds + 2, **options)
    try:
        time.sleep(1.0)
        figures = runner.run("raw_latency", turn.server, topic=turn.topic(f"{key}-quiet"), seconds=seconds)
        if loud.poll() is not None:
            raise runner.LoadFailed("the neighbour ended before the measurement did")
        rate = runner.finish(loud)["bytes_per_s"]
    finally:
        if loud.poll() is None:
            runner.end(loud)
    return {f"{key}_p50": figures["p50_us"], f"{key}_p99": figures["p99_us"], f"{key}_rate": rate}


def starts(turn: Turn) -> runner.Figures:
    """A server of its own: started, stopped, started, killed while it is written to, started."""
    server, topic = turn.stand.new(turn.server.name), turn.topic("killed")
    server.start()
    server.stop()
    figures = {"ready": server.start()}
    figures["rss_start"] = processes.resident_bytes(server.pid)
    if server.name != CEILING:
        load = runner.begin("raw_fill", server, topic=topic, bytes=20 * GB, batch_records=10, record_bytes=1_000)
        time.sleep(turn.sizes.latency_s / 2)
        server.kill()
        runner.end(load)
        started = time.perf_counter()
        server.start()
        await_writable(server, topic)
        figures["ready_kill"] = time.perf_counter() - started
    else:
        del figures["ready"]  # It has nothing to load, so it is no measure of a start.
    turn.stand.discard(server)
    return figures


def list_topics(turn: Turn) -> runner.Figures:
    command = turn.server.list_topics_command()
    if command is None:
        return {}
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise runner.LoadFailed(
            f"{' '.join(command[:4])} … exited with {done.returncode}: {done.stderr.strip()[-200:]}"
        )
    return {"list_topics": time.perf_counter() - started}


def java_tools(turn: Turn) -> runner.Figures:
    """Kafka's own performance tools, where Java is there; the ceiling does not speak to them."""
    if turn.server.name == CEILING or apache_kafka.missing() or not turn.sizes.java_records:
        return {}
    address, topic, records = turn.server.address, turn.topic("java"), turn.sizes.java_records
    with wire.Connection(address) as connection:
        connection.await_topic(topic)
        connection.await_topic(turn.topic("java-end"))
        has_groups = JOIN_GROUP in connection.api_keys()
    said = _java("ProducerPerformance", *_producer_options(address, topic, records))
    last = [line for line in said.splitlines() if "records/sec" in line][-1]
    figures = {"java_produce": float(re.findall(r"([\d.]+) records/sec", last)[0])}
    if has_groups:
        options = ("--bootstrap-server", address, "--topic", topic, "--num-records", str(records), "--hide-header")
        fields = _java("ConsumerPerformance", *options).strip().splitlines()[-1].split(", ")
        figures["java_consume"] = float(fields[9])  # records/s of fetching, joining the group not counted
    said = _java("EndToEndLatency", address, turn.topic("java-end"), str(turn.sizes.java_latencies), "1", "100")
    figures["java_p50"] = float(re.findall(r"50th = ([\d.]+)", said)[0]) * 1_000
    figures["java_p99"] = float(re.findall(r"99th = ([\d.]+)", said)[0]) * 1_000
    return figures


def _producer_options(address: str, topic: str, records: int) -> list[str]:
    counts = ["--num-records", str(records), "--record-size", "100", "--throughput", "-1"]
    return ["--bootstrap-server", address, "--topic", topic, *counts, "--command-property", "acks=1"]


def _java(tool: str, *arguments: str) -> str:
    command = ["java", "-Xmx512m", "-cp", apache_kafka.classpath(), f"org.apache.kafka.tools.{tool}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    # A tool that has printed its figures has done its work, whatever it says when it leaves its group.
    if done.returncode and not re.search("99th = |99th\\.", done.stdout):
        raise runner.LoadFailed(f"{tool}: {(done.stdout + done.stderr).strip()[-300:]}")
    return done.stdout


def warm_up(turn: Turn) -> None:
    """Everything once, unmeasured: a JVM compiles what runs often, and all three fill their caches."""
    warm = Turn(turn.stand, turn.server, QUICK_WARM_UP if turn.sizes is QUICK else WARM_UP, f"warm-{turn.label}")
    for stage in (small_records, requests, round_trips, latency, end_to_end):
        stage(warm)


#: In the order of the table.
STAGES: dict[str, Callable[[Turn], runner.Figures]] = {
    "small-records": small_records,
    "large-records": large_records,
    "requests": requests,
    "round-trips": round_trips,
    "latency": latency,
    "end-to-end": end_to_end,
    "neighbour": neighbour,
    "bulk-neighbour": bulk_neighbour,
    "list-topics": list_topics,
    "starts": starts,
    "java-tools": java_tools,
}
