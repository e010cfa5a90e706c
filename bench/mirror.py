"""Mirroring beside MirrorMaker 2: how fast a topic that is there is copied to another cluster, all on this machine.

    python -m bench.mirror [--mb 2000] [--rounds 1] [--only millstream]

A topic of 1 KB records in 4 partitions, in batches of 16 KB as producers make them by default, lies in one broker. The
mirror is started; the clock runs from the first record at the other broker until the last is there for readers of
committed records. MirrorMaker copies at least once between two Apache Kafkas, as it is run by default; `millstream
mirror` copies exactly once, between the same and between two Millstreams. The ratio in one run is what counts.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer
from tests.pipelines.mirror import mirrormaker
from tests.pipelines.topics import Topics

from bench import processes
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


CONTENDERS: dict[str, tuple[str, Callable[[Path], "subprocess.Popen[bytes]"]]] = {
    "MirrorMaker 2, Kafka to Kafka, at least once": (Kafka.name, start_mirrormaker),
    "millstream mirror, Kafka to Kafka, exactly once": (Kafka.name, start_millstream),
    "millstream mirror, Millstream to Millstream, exactly once": (Millstream.name, start_millstream),
}


def measure(size_mb: int, rounds: int, only: str) -> Iterator[str]:
    """The lines of the table, as they are known."""
    records = size_mb * 1_000_000 // RECORD_BYTES
    yield "| mirror | MB/s | of MirrorMaker | MB per CPU second, brokers included | first record after | memory |"
    yield "|-|-|-|-|-|-|"
    base: Figures | None = None
    for name, (server, start) in CONTENDERS.items():
        if only not in name:
            continue
        found = []
        for _ in range(rounds):
            with Stand([server]) as stand:
                source, target = stand.new(server), stand.new(server)
                source.start()
                target.start()
                fill(source.address, records)
                found.append(mirrored(source, target, start, records))
        best = max(found)
        base = base or best
        yield (
            f"| {name} | {best.bytes_per_s / MB:.1f} | {best.bytes_per_s / base.bytes_per_s:.1f}× | "
            f"{best.bytes_per_cpu_s / MB:.1f} ({best.bytes_per_cpu_s / base.bytes_per_cpu_s:.1f}×) | "
            f"{best.first_s:.1f} s | {best.resident_bytes / MB:,.0f} MB |"
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.mirror", description=__doc__)
    parser.add_argument("--mb", type=int, default=2_000, help="how much lies in the topic (%(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="the best of so many (%(default)s)")
    parser.add_argument("--only", default="", help="only mirrors whose name has this in it")
    given = parser.parse_args()
    for line in measure(given.mb, given.rounds, given.only):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
