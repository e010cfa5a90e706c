"""Measure how fast a topic can be written, with pre-encoded batches, pipelined.

By default 1 M records of 100 bytes; then larger ones, and single round trips:

millstream perf produce
millstream perf produce -s 1000 -n 2M --acks all -z lz4
millstream perf produce -n 50k --batch-records 1 --in-flight 1
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from millstream.cli.options import positive, positive_seconds
from millstream.cli.perf.load import ACKS, CODECS, add_topic_options, batch_of, ensure_topic, show_figures

if TYPE_CHECKING:
    from millstream.cli.perf.sending import Run, Sender
    from millstream.client.cluster import Cluster, Topic

BATCH_BYTES = 64 * 1024


def configure(parser: argparse.ArgumentParser) -> None:
    add_topic_options(parser)
    parser.add_argument("-n", "--records", type=positive, default=1_000_000, help="how many (default: 1M)")
    parser.add_argument("--seconds", type=positive_seconds, help="for so long, however many that are")
    parser.add_argument("-s", "--size", type=positive, default=100, metavar="BYTES", help="of a value (default: 100)")
    parser.add_argument("--batch-records", type=positive, metavar="N", help="default: as many as make 64 KiB")
    parser.add_argument("-a", "--acks", choices=sorted(ACKS), default="1", help="default: 1")
    parser.add_argument("-z", "--compression", choices=CODECS, default="none", help="default: none")
    parser.add_argument("--in-flight", type=positive, default=16, help="requests on their way (default: 16)")
    parser.add_argument("--connections", type=positive, default=1, metavar="N", help="to each leader (default: 1)")
    parser.add_argument("--rate", type=positive, metavar="N", help="at most so many records a second")


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    from millstream.cli.perf.sending import Run

    topic = await ensure_topic(cluster, args)
    batch_records = args.batch_records or max(1, BATCH_BYTES // args.size)
    load = Run(
        1 << 62 if args.seconds else -(-args.records // batch_records),
        seconds=args.seconds,
        requests_per_s=args.rate / batch_records if args.rate else None,
    )
    senders = await _senders(cluster, topic, load, batch_records, args)
    load.begin()
    for sender in senders:
        sender.start()
    try:
        await _watch(load, batch_records, args)
    finally:
        for sender in senders:
            sender.connection.close()
    _show(load, topic, batch_records, args)
    return 0


async def _senders(
    cluster: Cluster, topic: Topic, load: Run, batch_records: int, args: argparse.Namespace
) -> list[Sender]:
    """The connections to every leader, each with the frames of the partitions it leads."""
    from millstream.cli.perf.sending import Sender
    from millstream.client.frames import ProduceFrame
    from millstream.client.partitions import by_leader
    from millstream.model.ids import TopicPartition

    batch = batch_of(batch_records, args.size, args.compression)
    partitions = [TopicPartition(topic.name, partition.index) for partition in topic.partitions]
    senders = []
    for leader, led in (await by_leader(cluster, partitions)).items():
        for _ in range(args.connections):
            connection = await cluster.new_connection(leader.broker)
            frames = [ProduceFrame(connection, tp, topic.id, batch, acks=ACKS[args.acks]) for tp in led]
            senders.append(Sender(connection, frames, load, args.in_flight))
    return senders


async def _watch(load: Run, batch_records: int, args: argparse.Namespace) -> None:
    """Show how it goes until it is over; raises what went wrong."""
    import asyncio

    from millstream.cli.perf.figures import rate_text, spread_text
    from millstream.cli.progress import Progress

    progress = Progress(always=True, quiet=args.quiet or args.output != "table")
    told = 0

    def line(passed_s: float) -> str:
        nonlocal told
        recent, told = load.acknowledged - told, load.acknowledged
        rate = rate_text(recent * batch_records, recent * batch_records * args.size, passed_s)
        return f"{told * batch_records:,} records: {rate}; {spread_text(load.latencies.recent_ms())}"

    while not load.over.done():
        await asyncio.wait([load.over], timeout=0.25)
        progress.tell(line)
    progress.done()
    await load.over


def _show(load: Run, topic: Topic, batch_records: int, args: argparse.Namespace) -> None:
    from millstream.cli.perf.figures import rate_text, spread_text, throughput

    requests, seconds = load.acknowledged, load.taken_s
    records = requests * batch_records
    spread = load.latencies.spread_ms()
    show_figures(
        {
            "topic": topic.name,
            **throughput(records, records * args.size, seconds),
            "requests": requests,
            "requests_per_s": round(requests / seconds, 1),
            "acks": args.acks,
            "compression": args.compression,
            "latency_ms": spread,
        },
        [
            f"{records:,} records of {args.size:,} bytes in {seconds:.2f} s",
            f"rate      {rate_text(records, records * args.size, seconds)}",
            f"requests  {requests / seconds:,.0f}/s of {batch_records:,} records, acks {args.acks}",
            f"latency   {spread_text(spread)}",
        ],
        args.output,
    )
