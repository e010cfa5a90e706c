"""Print a topic's last records, over all its partitions by time, then follow it.

millstream tail orders -n 20 -e
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from millstream.cli import formats
from millstream.cli.options import not_negative

if TYPE_CHECKING:
    from millstream.client.cluster import Cluster


def configure(parser: argparse.ArgumentParser) -> None:
    from millstream.cli.options import add_format_options, add_partition_options

    parser.epilog = formats.HELP
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("-n", "--count", type=not_negative, default=10, metavar="N", help="how many (default: 10)")
    parser.add_argument("-e", "--exit-at-end", action="store_true", help="do not follow")
    add_partition_options(parser)
    add_format_options(parser)


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    from millstream.cli.options import ISOLATIONS
    from millstream.cli.positions import Base, Position, Range
    from millstream.cli.reading import partitions_of, print_read, printer_of, resolve
    from millstream.client.reader import Read, Reader

    printer = printer_of(args)
    isolation = ISOLATIONS[args.isolation]
    partitions = await partitions_of(cluster, [args.topic], args.partitions)
    wanted = Range(Position(Base.END, -args.count))
    starts, ends = await resolve(cluster, partitions, wanted, isolation, until_end=True)
    last = [
        (record.timestamp, read.partition.partition, record.offset, read.partition, record)
        async for read in Reader(cluster, starts, ends, isolation=isolation).read()
        for record in read.records
    ]
    last.sort(key=lambda row: row[:3])
    for *_, tp, record in last[max(0, len(last) - args.count) :]:
        print_read(Read(tp, [record]), printer)
    if not args.exit_at_end:
        async for read in Reader(cluster, ends, isolation=isolation).read():
            print_read(read, printer)
    return 0
