"""Stop moving partitions, and leave them where they were.

millstream reassign cancel plan.json
millstream reassign cancel --all
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from millstream.cli.options import add_output_option

if TYPE_CHECKING:
    from millstream.client.cluster import Cluster


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", metavar="FILE", help="stop these; - for standard input")
    parser.add_argument("--all", action="store_true", help="stop whatever is moving")
    add_output_option(parser)


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    from millstream.cli.failure import CommandFailed
    from millstream.cli.outcomes import report
    from millstream.cli.reassign.document import read_plan
    from millstream.client.moves import move, moves

    if (args.file is None) != args.all:
        raise CommandFailed("give the plan to stop, or --all", exit_code=2)
    keys = list(await moves(cluster)) if args.all else list(read_plan(args.file))
    if not keys:
        print("nothing is moving")
        return 0
    outcomes = await move(cluster, dict.fromkeys(keys))
    return report(outcomes, "stopped", args.output, frozenset({"NO_REASSIGNMENT_IN_PROGRESS"}), noun="partition")
