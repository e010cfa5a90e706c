"""Give topics more partitions.

Records stay where they are, but keys may go to other partitions from now on.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from millstream.cli.options import add_output_option, positive

if TYPE_CHECKING:
    from millstream.client.cluster import Cluster


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="TOPIC")
    count = parser.add_mutually_exclusive_group(required=True)
    count.add_argument("-n", "--num", type=positive, metavar="N", help="add so many")
    count.add_argument("-t", "--total", type=positive, metavar="N", help="have so many in all")
    parser.add_argument("--dry-run", action="store_true", help="only ask whether they could be added")
    add_output_option(parser)


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    from millstream.cli.outcomes import report
    from millstream.client.admin import create_partitions

    totals = {
        name: args.total or len((await cluster.topic(name)).partitions) + args.num for name in dict.fromkeys(args.names)
    }
    outcomes = await create_partitions(cluster, totals, validate_only=args.dry_run)
    return report(outcomes, "could extend" if args.dry_run else "extended", args.output)
