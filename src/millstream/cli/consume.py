"""Print the records of topics, from the start on and then as they come.

The last ten of each partition, the last hour's and what follows, and a range:

millstream consume orders -o -10 -e
millstream consume orders -o @-1h -f '%p %o %k %v\\n'
millstream consume orders -o 1000:2000 -p 0 --output json

As a member of a group, which goes on where it was and shares the partitions:

millstream consume orders -g billing
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from millstream.cli import formats, positions
from millstream.cli.options import positive

if TYPE_CHECKING:
    from millstream.client.cluster import Cluster

OFFSETS_HELP = """offsets:
  start  end  1000    the start, the end, an offset
  +5  -5              5 after the start, 5 before the end
  1000:2000  :2000    between two offsets (not including the second), until one
  :end  -5:end        until what is the end now
  @-1h  @2026-01-31   from a time on: a duration ago, a date,
                      2026-01-31T12:00:00Z, or milliseconds since the epoch
  @T1:T2  @:T2        between two times, until a time
  @-1h:30m  @-1d:end  the second may be a duration after the first, or `end`"""

#: ``-o -5:end`` begins with a minus, which argparse would take for an option.
SIGNED_OPTIONS = ("-o", "--offset")


def configure(parser: argparse.ArgumentParser) -> None:
    from millstream.cli.options import add_format_options, add_partition_options

    parser.epilog = f"{OFFSETS_HELP}\n\n{formats.HELP}"
    parser.add_argument("topics", nargs="+", metavar="TOPIC")
    start = parser.add_mutually_exclusive_group()
    start.add_argument("-o", "--offset", default="start", help="where to begin, and end (default: start)")
    start.add_argument("--from-beginning", action="store_const", const="start", dest="offset", help="as -o start")
    parser.add_argument("-g", "--group", help="read as a member of this group; -o is for what it has not read yet")
    parser.add_argument("-n", "--count", type=positive, metavar="N", help="end after so many records")
    end = parser.add_mutually_exclusive_group()
    end.add_argument("-e", "--exit-at-end", action="store_true", help="end at what is the end when the command starts")
    end.add_argument("--follow", action="store_true", help="wait for more at the end, as it does without -e")
    add_partition_options(parser)
    add_format_options(parser)


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    from millstream.cli.failure import CommandFailed
    from millstream.cli.options import ISOLATIONS
    from millstream.cli.reading import partitions_of, print_read, printer_of, resolve
    from millstream.client.reader import Reader

    printer = printer_of(args)
    try:
        wanted = positions.parse_range(args.offset, time.time_ns() // 1_000_000)
    except ValueError as error:
        raise CommandFailed(str(error), exit_code=2) from None
    isolation = ISOLATIONS[args.isolation]
    if args.group is not None:
        from millstream.cli.group_reading import GroupReading, Wanted

        if args.partitions is not None:
            raise CommandFailed("a group shares out partitions itself; leave out -p or -g", exit_code=2)
        for name in args.topics:
            await cluster.topic(name)  # Says so when there is none.
        task = Wanted(args.topics, wanted, isolation, args.count, args.exit_at_end)
        await GroupReading(cluster, args.group, task, lambda read: print_read(read, printer)).run()
        return 0
    partitions = await partitions_of(cluster, args.topics, args.partitions)
    starts, stops = await resolve(cluster, partitions, wanted, isolation, until_end=args.exit_at_end)
    left: int | None = args.count
    async for read in Reader(cluster, starts, stops, isolation=isolation).read():
        if left is not None:
            read = read._replace(records=read.records[:left])
            left -= len(read.records)
        print_read(read, printer)
        if left == 0:
            break
    return 0
