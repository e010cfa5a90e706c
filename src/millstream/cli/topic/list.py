"""List topics: how many partitions and replicas, and how many are in trouble."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from millstream.cli.options import add_output_option

if TYPE_CHECKING:
    from millstream.client.cluster import Cluster, Topic

COLUMNS = ("name", "partitions", "replicas", "under_replicated", "offline")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pattern", nargs="?", metavar="PATTERN", help="only topics whose name matches, as in 'order*'")
    parser.add_argument("-i", "--internal", action="store_true", help="show internal topics too")
    parser.add_argument("--under-replicated", action="store_true", help="only topics with a replica out of sync")
    parser.add_argument("-q", "--names", action="store_true", help="print names alone, one to a line")
    add_output_option(parser)


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    from fnmatch import fnmatchcase

    from millstream.cli.output import show

    await cluster.refresh(None)
    rows = [
        _row(topic)
        for topic in sorted(cluster.topics.values(), key=lambda topic: topic.name)
        if (args.internal or not topic.is_internal) and fnmatchcase(topic.name, args.pattern or "*")
    ]
    if args.under_replicated:
        rows = [row for row in rows if row["under_replicated"]]
    if args.names:
        for row in rows:
            print(row["name"])
        return 0
    show(rows, args.output, COLUMNS)
    return 0


def _row(topic: Topic) -> dict[str, object]:
    return {
        "name": topic.name,
        "partitions": len(topic.partitions),
        "replicas": max((len(partition.replicas) for partition in topic.partitions), default=0),
        "under_replicated": sum(len(part.in_sync) < len(part.replicas) for part in topic.partitions),
        "offline": sum(part.leader < 0 for part in topic.partitions),
        "internal": topic.is_internal,
    }
