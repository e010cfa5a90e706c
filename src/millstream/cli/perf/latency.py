"""Measure how long a record takes to be acknowledged, and to reach a reader.

Records are sent at a steady rate, whether earlier ones were answered or not, so
that a pause of the broker shows in the figures of every record it held up.

millstream perf latency --rate 1000 --seconds 10
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from millstream.cli.options import positive, positive_seconds
from millstream.cli.perf.load import ACKS, add_topic_options, ensure_topic, show_figures

if TYPE_CHECKING:
    from millstream.cli.perf.pinging import Pings
    from millstream.client.cluster import Cluster

VALUE_BYTES_MIN = 16


def configure(parser: argparse.ArgumentParser) -> None:
    add_topic_options(parser)
    parser.add_argument("--rate", type=positive, default=1000, metavar="N", help="records a second (default: 1000)")
    parser.add_argument("--seconds", type=positive_seconds, default=10.0, help="for how long (default: 10)")
    parser.add_argument("--warm-up", type=positive_seconds, default=1.0, help="seconds not counted (default: 1)")
    parser.add_argument("-s", "--size", type=positive, default=100, metavar="BYTES", help="of a value (default: 100)")
    parser.add_argument("-a", "--acks", choices=("1", "all", "-1"), default="1", help="default: 1")


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    from millstream.cli.perf.pinging import Pings
    from millstream.client.partitions import LATEST, list_offsets
    from millstream.model.ids import TopicPartition

    topic = await ensure_topic(cluster, args)
    tp = TopicPartition(topic.name, topic.partitions[0].index)
    end = (await list_offsets(cluster, {tp: LATEST}))[tp].offset
    leader = (await cluster.leader(tp)).broker
    pings = Pings(
        await cluster.new_connection(leader),
        await cluster.new_connection(leader),
        tp,
        topic.id,
        value_bytes=max(args.size, VALUE_BYTES_MIN),
        acks=ACKS[args.acks],
    )
    pings.start(end, args.rate, args.warm_up, args.seconds)
    try:
        await _watch(pings, args)
    finally:
        pings.close()
    _show(pings, args)
    return 0


async def _watch(pings: Pings, args: argparse.Namespace) -> None:
    import asyncio

    from millstream.cli.perf.figures import spread_text
    from millstream.cli.progress import Progress

    progress = Progress(always=True, quiet=args.quiet or args.output != "table")
    while not pings.over.done():
        await asyncio.wait([pings.over], timeout=0.25)
        progress.tell(lambda passed_s: f"{pings.sent:,} sent; {spread_text(pings.end_to_end.recent_ms())}")
    progress.done()
    await pings.over


def _show(pings: Pings, args: argparse.Namespace) -> None:
    from millstream.cli.perf.figures import spread_text

    produced, arrived = pings.produced.spread_ms(), pings.end_to_end.spread_ms()
    show_figures(
        {
            "topic": args.topic,
            "rate": args.rate,
            "seconds": args.seconds,
            "acks": args.acks,
            "size": args.size,
            "records": len(pings.produced.all_ns),
            "produce_ms": produced,
            "end_to_end_ms": arrived,
        },
        [
            f"{len(pings.produced.all_ns):,} records of {args.size:,} bytes at {args.rate:,}/s, acks {args.acks}",
            f"produce     {spread_text(produced)}",
            f"end to end  {spread_text(arrived)}",
        ],
        args.output,
    )
