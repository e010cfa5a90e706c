"""Begin to move partitions as a plan says; writers and readers go on.

millstream reassign execute plan.json --save before.json --wait
millstream reassign execute plan.json --throttle 50M

A throttle stays until `millstream reassign verify` finds that all have arrived,
or `millstream reassign cancel` stops them.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from millstream.cli.options import add_output_option, positive
from millstream.cli.reassign.document import add_file_argument

if TYPE_CHECKING:
    from millstream.client.cluster import Cluster


def configure(parser: argparse.ArgumentParser) -> None:
    add_file_argument(parser)
    parser.add_argument("--save", metavar="FILE", help="write where they are now there, as a plan that leads back")
    parser.add_argument(
        "--throttle",
        type=positive,
        metavar="BYTES",
        help="copy so many bytes a second at most, out of and into each broker: 500k, 50M, 1G",
    )
    parser.add_argument("--wait", action="store_true", help="return when all of them have arrived")
    add_output_option(parser)


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    from millstream.cli.outcomes import report
    from millstream.cli.reassign.document import read_plan, write_plan
    from millstream.cli.reassign.progress import until_moved
    from millstream.client.moves import move

    plan = read_plan(args.file)
    if args.save:
        write_plan(args.save, {key: (await cluster.partition(key)).replicas for key in plan})
    if args.throttle:
        from millstream.cli.reassign.throttle import slow_down

        await slow_down(cluster, plan, args.throttle)
    outcomes = await move(cluster, plan)
    code = report(outcomes, "moving", args.output, noun="partition")
    if args.wait:
        refused = {outcome.name for outcome in outcomes if outcome.code}
        await until_moved(cluster, {key: replicas for key, replicas in plan.items() if str(key) not in refused})
    return code
