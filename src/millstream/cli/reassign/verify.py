"""Show how far a plan is; ends with 1 while a partition is not where it should be.

millstream reassign verify plan.json

Once all are there, throttles that slowed them down are taken off.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from millstream.cli.options import add_output_option
from millstream.cli.reassign.document import add_file_argument

if TYPE_CHECKING:
    from millstream.client.cluster import Cluster


def configure(parser: argparse.ArgumentParser) -> None:
    add_file_argument(parser)
    parser.add_argument("--preserve-throttles", action="store_true", help="leave throttles on")
    add_output_option(parser)


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    from collections import Counter

    from millstream.cli.output import show
    from millstream.cli.reassign.document import read_plan
    from millstream.cli.reassign.progress import DONE, states
    from millstream.cli.reassign.throttle import speed_up

    plan = read_plan(args.file)
    rows = await states(cluster, plan)
    show(rows, args.output, ("topic", "partition", "state", "target", "replicas", "in_sync"))
    if args.output == "table":
        print("\n" + ", ".join(f"{count} {state}" for state, count in Counter(row["state"] for row in rows).items()))
    if not all(row["state"] == DONE for row in rows):
        return 1
    if not args.preserve_throttles:
        await speed_up(cluster, {key.topic for key in plan})
    return 0
