"""Show how far a plan is; ends with 1 while a partition is not where it should be.

millstream reassign verify plan.json
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
    add_output_option(parser)


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    from millstream.cli.output import show
    from millstream.cli.reassign.document import read_plan
    from millstream.cli.reassign.progress import DONE, states

    rows = await states(cluster, read_plan(args.file))
    show(rows, args.output, ("topic", "partition", "state", "target", "replicas", "in_sync"))
    return 0 if all(row["state"] == DONE for row in rows) else 1
