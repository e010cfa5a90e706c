"""Delete consumer groups that have no members, and their offsets."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from millstream.cli.options import add_output_option

if TYPE_CHECKING:
    from millstream.client.admin import Outcome
    from millstream.client.cluster import Cluster


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="GROUP")
    parser.add_argument("--if-exists", action="store_true", help="a group that is not there counts as deleted")
    add_output_option(parser)


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    from millstream.cli.outcomes import report
    from millstream.cli.waiting import coordinators_of
    from millstream.client.groups import delete_groups

    outcomes = await delete_groups(coordinators_of(cluster), args.names)
    forgiven = frozenset({"GROUP_ID_NOT_FOUND"}) if args.if_exists else frozenset[str]()
    return report([_explained(outcome) for outcome in outcomes], "deleted", args.output, forgiven, noun="group")


def _explained(outcome: Outcome) -> Outcome:
    """A broker sends no words with these refusals."""
    said = {"NON_EMPTY_GROUP": "the group has members", "GROUP_ID_NOT_FOUND": "there is no such group"}
    return outcome._replace(detail=said.get(outcome.code.name, outcome.detail))
