"""Mirroring beside MirrorMaker 2: how fast a topic that is there is copied to another cluster, all on this machine.

A topic of 1 KB records in 4 partitions, in batches of 16 KB as producers make them by default, lies in one broker. The
mirror is started; the clock runs from the first record at the other broker until the last is there for readers of
committed records. MirrorMaker copies at least once between two Apache Kafkas, as it is run by default; `millstream
mirror` copies exactly once, between the same and between two Millstreams. The ratio in one run is what counts.
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer
from tests.pipelines.mirror import mirrormaker
from tests.pipelines.topics import Topics

from bench import processes
from bench.progress import say
from bench.servers import PROJECT, Kafka, Millstream, Server, Stand
from millstream.client.cluster import Cluster
from millstream.client.partitions import LATEST, READ_COMMITTED, READ_UNCOMMITTED, list_offsets
from millstream.client.wire import parse_addresses
from millstream.model.errors import ProtocolError
from millstream.model.ids import TopicPartition

PARTITIONS = 4
RECORD_BYTES = 1_000
TOPIC, REMOTE = "records", "A.records"
TIMEOUT_S = 900.0
#: Nothing comes any more when nothing came for so long.
QUIET_S = 5.0
MB = 1e6
RATIO_MIN = 2.5

SETTINGS = """clusters = A, B
A->B.enabled = true
topics = records
replication.factor = 1
offset-syncs.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
sync.topic.acls.enabled = false
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
"""


class Figures(NamedTuple):
    """What one mirror did."""

    bytes_per_s: float
    #: By the processor time of the mirror and both brokers: where others use the machine too, this says more.
    bytes_per_cpu_s: float
    first_s: float
    resident_bytes: int


def fill(address: str, records: int) -> None:
    """Put the records there, by a client of neither side."""
    Topics(address).new(PARTITIONS, name=TOPIC)
    producer = Producer(
        {
            "bootstrap.servers": address,
            "batch.size": 16_384,
            "linger.ms": 50,
            "queue.buffering.max.kbytes": 262_144,
            "log_level": 2,
        }
    )
    value = os.urandom(RECORD_BYTES)
    for number in range(records):
        while True:
            try:
                producer.produce(TOPIC, value=value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(300) == 0


class Arrival(NamedTuple):
    """When the first record was there, when the last, by a running clock; the memory and CPU time that took."""

    first_s: float
    last_s: float
    resident_bytes: int
    cpu_s: float


async def _arrival(address: str, records: int, mirror: "subprocess.Popen[bytes]", pids: list[int]) -> Arrival:
    """Look on until all is there."""
    places = [TopicPartition(REMOTE, number) for number in range(PARTITIONS)]
    deadline_s = time.monotonic() + TIMEOUT_S
    first_s = last_s = used_s = before_s = 0.0
    resident = seen = 0
    async with Cluster(parse_addresses(address)) as cluster:
        while time.monotonic() < deadline_s and mirror.poll() is None:
            await asyncio.sleep(0.1)
            resident = max(resident, processes.resident_bytes(mirror.pid))
            now_s = time.monotonic()
            try:
                isolation = READ_COMMITTED if first_s else READ_UNCOMMITTED
                found = await list_offsets(cluster, dict.fromkeys(places, LATEST), isolation=isolation)
            except ProtocolError:
                continue  # The topic is not made yet.
            total = sum(each.offset for each in found.values())
            cpu_s = sum(map(processes.cpu_s, pids))
            if total and not first_s:
                first_s, before_s = now_s, cpu_s
            elif first_s and total > seen:
                seen, last_s, used_s = total, now_s, cpu_s - before_s
            if seen >= records and now_s - last_s >= QUIET_S:
                return Arrival(first_s, last_s, resident, used_s)
    raise RuntimeError(f"the mirror has {seen} of {records} records; it ended or is too slow")


def mirrored(
    source: Server, target: Server, start: Callable[[Path], "subprocess.Popen[bytes]"], records: int
) -> Figures:
    """Let a mirror copy what is there."""
    file = source.data.with_name(f"mirror-{source.data.name}.properties")
    places = f"A.bootstrap.servers = {source.address}\nB.bootstrap.servers = {target.address}\n"
    file.write_text(SETTINGS + places)
    begun_s = time.monotonic()
    mirror = start(file)
    try:
        pids = [mirror.pid, source.pid, target.pid]
        found = asyncio.run(_arrival(target.address, records, mirror, pids))
        size = records * RECORD_BYTES
        rate = size / (found.last_s - found.first_s)
        return Figures(rate, size / found.cpu_s, found.first_s - begun_s, found.resident_bytes)
    finally:
        mirror.terminate()
        try:
            mirror.wait(60)
        except subprocess.TimeoutExpired:
            mirror.kill()
            mirror.wait()


def start_mirrormaker(file: Path) -> "subprocess.Popen[bytes]":
    """MirrorMaker, with a task for each partition: by default it has one."""
    file.write_text(f"{file.read_text()}tasks.max = {PARTITIONS}\n")
    return mirrormaker.start(file)


def start_millstream(file: Path) -> "subprocess.Popen[bytes]":
    """`millstream mirror`, with a checkpoint beside its file."""
    command = [sys.executable, "-m", "millstream", "mirror", str(file), "--checkpoint", str(file.with_suffix(".kept"))]
    with open(file.with_suffix(".out"), "ab") as output:
        return subprocess.Popen(command, cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=output, stderr=output)


MIRRORMAKER = "MirrorMaker 2, Kafka to Kafka, at least once"
#: What the broker under each is, and how it is started. The first is what the others are held to.
MIRRORS: dict[str, tuple[str, Callable[[Path], "subprocess.Popen[bytes]"]]] = {
    MIRRORMAKER: (Kafka.name, start_mirrormaker),
    "millstream mirror, Kafka to Kafka, exactly once": (Kafka.name, start_millstream),
    "millstream mirror, Millstream to Millstream, exactly once": (Millstream.name, start_millstream),
}


def measure(contenders: list[str], size_mb: int, rounds: int) -> dict[str, Figures]:
    """By mirror the best of so many rounds; they take turns."""
    records = size_mb * 1_000_000 // RECORD_BYTES
    found: dict[str, Figures] = {}
    for number in range(rounds):
        for name, (server, start) in MIRRORS.items():
            if server not in contenders:
                continue
            say(f"mirror, round {number + 1} of {rounds}: {name}")
            with Stand([server]) as stand:
                source, target = stand.new(server), stand.new(server)
                source.start()
                target.start()
                fill(source.address, records)
                figures = mirrored(source, target, start, records)
            found[name] = max(figures, found.get(name, figures))
    return found


def render(found: dict[str, Figures]) -> str:
    """A Markdown table."""
    heads = ["mirror", "throughput", "of MirrorMaker", "per CPU second", "first record after", "memory", "target", ""]
    lines = ["| " + " | ".join(heads) + " |", "|" + "-|" * len(heads)]
    base = found.get(MIRRORMAKER)
    for name, each in found.items():
        ratios, target = ["—", "—"], ["", ""]
        if base is not None:
            ratio = each.bytes_per_s / base.bytes_per_s
            ratios = [f"{ratio:.1f}×", f"{each.bytes_per_cpu_s / base.bytes_per_cpu_s:.1f}×"]
            if name != MIRRORMAKER:
                target = [f"≥ {RATIO_MIN}×", "met" if ratio >= RATIO_MIN else "**missed**"]
        cells = [
            name,
            f"{each.bytes_per_s / MB:.0f} MB/s",
            ratios[0],
            f"{each.bytes_per_cpu_s / MB:.0f} MB ({ratios[1]})",
            f"{each.first_s:.1f} s",
            f"{each.resident_bytes / MB:,.0f} MB",
            *target,
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def bench(contenders: list[str], quick: bool) -> str:
    """The table of the section ``mirror``."""
    return render(measure(contenders, *((500, 1) if quick else (2_000, 2))))
