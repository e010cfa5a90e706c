"""Measure how fast a topic can be read, from its start to its end.

Batches are counted by their headers alone; no record is decoded.

millstream perf consume
millstream perf consume orders -n 5M --fetch-bytes 4M
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from millstream.cli.options import not_negative, positive
from millstream.cli.perf.load import show_figures

if TYPE_CHECKING:
    from millstream.cli.perf.fetching import Drain
    from millstream.client.cluster import Cluster


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", nargs="?", default="perf", metavar="TOPIC", help="default: perf")
    parser.add_argument("-n", "--records", type=positive, help="stop after so many (default: at the end)")
    parser.add_argument("--fetch-bytes", type=positive, default=1024 * 1024, help="of a partition (default: 1 MiB)")
    parser.add_argument("--max-bytes", type=positive, default=50 * 1024 * 1024, help="of an answer (default: 50 MiB)")
    parser.add_argument("--wait-ms", type=not_negative, default=500, help="the broker's patience (default: 500)")
    parser.add_argument("--repeat", type=positive, default=1, metavar="N", help="read it all so many times")
    parser.add_argument("-q", "--quiet", action="store_true", help="show no progress")
    parser.add_argument("-o", "--output", choices=("table", "json", "yaml"), default="table")
    parser.set_defaults(fast_loop=True)


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    from millstream.cli.perf.fetching import Drain, Fetcher
    from millstream.client.frames import FetchFrame
    from millstream.client.partitions import EARLIEST, LATEST, by_leader, list_offsets
    from millstream.model.ids import TopicPartition

    topic = await cluster.topic(args.topic)
    partitions = [TopicPartition(topic.name, partition.index) for partition in topic.partitions]
    starts = await list_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
    ends = await list_offsets(cluster, dict.fromkeys(partitions, LATEST))
    drain = Drain(args.records)
    fetchers = []
    for leader, led in (await by_leader(cluster, partitions)).items():
        connection = await cluster.new_connection(leader.broker)
        frame = FetchFrame(
            connection,
            topic.name,
            topic.id,
            [tp.partition for tp in led],
            partition_bytes_max=args.fetch_bytes,
            bytes_max=args.max_bytes,
            wait_ms=args.wait_ms,
        )
        ranges = {tp.partition: (starts[tp].offset, ends[tp].offset) for tp in led}
        fetchers.append(Fetcher(connection, frame, ranges, drain, args.repeat))
    drain.begin(len(fetchers))
    for fetcher in fetchers:
        fetcher.start()
    try:
        await _watch(drain, args)
    finally:
        for fetcher in fetchers:
            fetcher.connection.close()
    _show(drain, args)
    return 0


async def _watch(drain: Drain, args: argparse.Namespace) -> None:
    import asyncio

    from millstream.cli.perf.figures import rate_text
    from millstream.cli.progress import Progress

    progress = Progress(always=True, quiet=args.quiet or args.output != "table")
    told = (0, 0)

    def line(passed_s: float) -> str:
        nonlocal told
        before, told = told, (drain.records, drain.size_bytes)
        return f"{told[0]:,} records: {rate_text(told[0] - before[0], told[1] - before[1], passed_s)}"

    while not drain.over.done():
        await asyncio.wait([drain.over], timeout=0.25)
        progress.tell(line)
    progress.done()
    await drain.over


def _show(drain: Drain, args: argparse.Namespace) -> None:
    from millstream.cli.perf.figures import rate_text, spread_text, throughput

    spread = drain.latencies.spread_ms()
    show_figures(
        {
            "topic": args.topic,
            **throughput(drain.records, drain.size_bytes, drain.taken_s),
            "fetches": len(drain.latencies.all_ns),
            "latency_ms": spread,
        },
        [
            f"{drain.records:,} records, {drain.size_bytes / 1e6:,.1f} MB of batches in {drain.taken_s:.2f} s",
            f"rate      {rate_text(drain.records, drain.size_bytes, drain.taken_s)}",
            f"fetches   {len(drain.latencies.all_ns):,}",
            f"latency   {spread_text(spread)}",
        ],
        args.output,
    )
