"""List the partitions that are being moved."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from millstream.cli.options import add_output_option

if TYPE_CHECKING:
    from millstream.client.cluster import Cluster


def configure(parser: argparse.ArgumentParser) -> None:
    add_output_option(parser)


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    from millstream.cli.output import show
    from millstream.client.moves import moves

    rows = [
        {
            "topic": key.topic,
            "partition": key.partition,
            "replicas": moving.replicas,
            "adding": moving.adding,
            "removing": moving.removing,
        }
        for key, moving in sorted((await moves(cluster)).items())
    ]
    if not rows and args.output == "table":
        print("nothing is moving")
        return 0
    show(rows, args.output, ("topic", "partition", "replicas", "adding", "removing"))
    return 0
