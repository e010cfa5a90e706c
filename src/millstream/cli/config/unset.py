"""Take settings of a topic or broker back to their defaults."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from millstream.cli.config.resource import add_resource_arguments, resource_of

if TYPE_CHECKING:
    from millstream.client.cluster import Cluster


def configure(parser: argparse.ArgumentParser) -> None:
    add_resource_arguments(parser)
    parser.add_argument("settings", nargs="+", metavar="SETTING")


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    from millstream.client.admin import Change, Operation, alter_configs

    resource, name = resource_of(args)
    await alter_configs(cluster, resource, name, [Change(key, Operation.DELETE) for key in args.settings])
    for key in args.settings:
        print(f"unset {key} for {args.kind} {args.name}")
    return 0
