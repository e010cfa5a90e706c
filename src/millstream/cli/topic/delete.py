"""Delete topics and all their records."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from millstream.cli.options import add_output_option

if TYPE_CHECKING:
    from millstream.client.cluster import Cluster


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="TOPIC")
    parser.add_argument("--if-exists", action="store_true", help="a topic that is not there counts as deleted")
    add_output_option(parser)


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    from millstream.cli.outcomes import report
    from millstream.client.admin import delete_topics

    outcomes = await delete_topics(cluster, list(dict.fromkeys(args.names)))
    forgiven = frozenset({"UNKNOWN_TOPIC_OR_PARTITION"}) if args.if_exists else frozenset[str]()
    return report(outcomes, "deleted", args.output, forgiven)
