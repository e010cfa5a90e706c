"""Stop moving partitions, and leave them where they were.

millstream reassign cancel plan.json
millstream reassign cancel --all

Throttles that slowed them down are taken off, too.
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
    parser.add_argument("--preserve-throttles", action="store_true", help="leave throttles on")
    add_output_option(parser)


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    from millstream.cli.failure import CommandFailed
    from millstream.cli.outcomes import report
    from millstream.cli.reassign.document import read_plan
    from millstream.cli.reassign.throttle import speed_up
    from millstream.client.moves import move, moves

    if (args.file is None) != args.all:
        raise CommandFailed("give the plan to stop, or --all", exit_code=2)
    keys = list(await moves(cluster)) if args.all else list(read_plan(args.file))
    if not keys and args.output == "table":
        print("nothing is moving")
        return 0
    outcomes = await move(cluster, dict.fromkeys(keys))
    unknown = {outcome.name for outcome in outcomes if outcome.code.name == "UNKNOWN_TOPIC_OR_PARTITION"}
    code = report(outcomes, "stopped", args.output, frozenset({"NO_REASSIGNMENT_IN_PROGRESS"}), noun="partition")
    if not args.preserve_throttles:
        await speed_up(cluster, {key.topic for key in keys if str(key) not in unknown})
    return code
