"""Show the settings of a topic or broker, and where each value comes from.

millstream config describe topic orders
millstream config describe broker 1 --all
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from millstream.cli.config.resource import add_resource_arguments, resource_of
from millstream.cli.options import add_output_option

if TYPE_CHECKING:
    from millstream.client.cluster import Cluster


def configure(parser: argparse.ArgumentParser) -> None:
    add_resource_arguments(parser)
    parser.add_argument("-a", "--all", action="store_true", help="show settings that have their defaults too")
    parser.add_argument("--doc", action="store_true", help="say what each is for")
    add_output_option(parser)


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    from millstream.cli.output import show
    from millstream.client.admin import describe_configs

    resource, name = resource_of(args)
    settings = await describe_configs(cluster, resource, name, documentation=args.doc)
    rows = [
        {
            "name": setting.name,
            "value": "(hidden)" if setting.is_sensitive else setting.value,
            "source": setting.source,
            "read_only": setting.is_read_only,
            **({"doc": setting.documentation} if args.doc else {}),
        }
        for setting in settings
        if args.all or args.doc or args.output != "table" or setting.source != "default"
    ]
    if not rows:
        print("every setting has its default; see them with --all")
        return 0
    show(rows, args.output, ("name", "value", "source", *(("doc",) if args.doc else ())))
    return 0
