"""Set settings of a topic or broker; those not named stay as they are.

millstream config set topic orders retention.ms=3600000 cleanup.policy=compact
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from millstream.cli.config.resource import add_resource_arguments, resource_of
from millstream.cli.options import setting

if TYPE_CHECKING:
    from millstream.client.cluster import Cluster


def configure(parser: argparse.ArgumentParser) -> None:
    add_resource_arguments(parser)
    parser.add_argument("settings", nargs="+", type=setting, metavar="NAME=VALUE")


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    from millstream.client.admin import Change, Operation, alter_configs

    resource, name = resource_of(args)
    await alter_configs(cluster, resource, name, [Change(key, Operation.SET, value) for key, value in args.settings])
    for key, value in args.settings:
        print(f"set {key}={value} for {args.kind} {args.name}")
    return 0
