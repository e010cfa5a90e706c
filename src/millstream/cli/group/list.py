"""List consumer groups: protocol, state and number of members.

millstream group list 'billing*' --state Stable,Empty
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from millstream.cli.options import add_output_option, some_of

if TYPE_CHECKING:
    from millstream.client.cluster import Cluster
    from millstream.client.groups import ListedGroup

COLUMNS = ("name", "protocol", "state", "members", "coordinator")
STATES = ("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Dead")
PROTOCOLS = ("classic", "consumer", "share", "streams")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pattern", nargs="?", metavar="PATTERN", help="only groups whose name matches, as in 'bill*'")
    parser.add_argument(
        "--state",
        dest="states",
        type=some_of(STATES),
        metavar="STATE[,…]",
        help=f"only groups in one of these: {', '.join(STATES)}",
    )
    parser.add_argument(
        "--type",
        dest="protocols",
        type=some_of(PROTOCOLS),
        metavar="TYPE[,…]",
        help="only groups of these protocols: classic, consumer",
    )
    parser.add_argument("-q", "--names", action="store_true", help="print names alone, one to a line")
    add_output_option(parser)


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    from fnmatch import fnmatchcase

    from millstream.cli.output import show
    from millstream.cli.waiting import coordinators_of
    from millstream.client.groups import list_groups

    rows = [
        _row(group)
        for group in await list_groups(coordinators_of(cluster))
        if fnmatchcase(group.name, args.pattern or "*")
        and (args.states is None or group.state in args.states)
        and (args.protocols is None or group.protocol in args.protocols)
    ]
    if args.names:
        for row in rows:
            print(row["name"])
        return 0
    show(rows, args.output, COLUMNS)
    return 0


def _row(group: ListedGroup) -> dict[str, object]:
    return {
        "name": group.name,
        "protocol": group.protocol,
        "state": group.state,
        "members": group.members,
        "coordinator": group.coordinator.id,
        "protocol_type": group.protocol_type,
    }
