"""Change topics' settings; those not named stay as they are.

millstream topic alter orders -c retention.ms=3600000 -d cleanup.policy
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from millstream.cli.options import add_setting_option

if TYPE_CHECKING:
    from millstream.client.cluster import Cluster


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="TOPIC")
    add_setting_option(parser, "set this; may be repeated")
    parser.add_argument(
        "-d",
        "--delete",
        dest="unset",
        action="append",
        default=[],
        metavar="NAME",
        help="take this back to its default; may be repeated",
    )
    parser.add_argument("--dry-run", action="store_true", help="only ask whether it could be changed")


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    from millstream.cli.failure import CommandFailed
    from millstream.client.admin import Change, Operation, Resource, alter_configs

    changes = [Change(name, Operation.SET, value) for name, value in args.settings]
    changes += [Change(name, Operation.DELETE) for name in args.unset]
    if not changes:
        raise CommandFailed("nothing to change; give -c NAME=VALUE or -d NAME", exit_code=2)
    for name in args.names:
        await alter_configs(cluster, Resource.TOPIC, name, changes, validate_only=args.dry_run)
        print(f"{'could alter' if args.dry_run else 'altered'} {name}")
    return 0
