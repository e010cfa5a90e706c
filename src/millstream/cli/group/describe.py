"""Show consumer groups: state, members, and how far each partition is read.

Lag is counted in records, and in seconds: the age of the oldest record that is
still to be read. Partitions in which the group has committed nothing yet are
told apart: how much it will read of them is for its consumers to say.

millstream group describe billing
millstream group describe --all --state
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from millstream.cli.options import add_output_option

if TYPE_CHECKING:
    from millstream.cli.group.document import Row
    from millstream.client.cluster import Cluster
    from millstream.client.coordinators import Coordinators

OFFSET_COLUMNS = ("topic", "partition", "current_offset", "end_offset", "lag", "lag_seconds")
OWNER_COLUMNS = ("member", "client_id", "host")
STATIC_OWNER_COLUMNS = ("member", "instance", "client_id", "host")
MEMBER_COLUMNS = ("member", "instance", "client_id", "host", "partitions", "assignment")
STATE_COLUMNS = ("group", "protocol", "state", "assignor", "coordinator", "members")
#: Groups that are asked about together.
GROUPS_AT_ONCE = 16


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="GROUP")
    parser.add_argument("-a", "--all", action="store_true", help="all groups there are")
    view = parser.add_mutually_exclusive_group()
    for name, help_text in (
        ("offsets", "only partitions, offsets and lag"),
        ("members", "only members and what they are assigned"),
        ("state", "only a line for each group"),
    ):
        view.add_argument(f"--{name}", dest="view", action="store_const", const=name, help=help_text)
    add_output_option(parser)


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    from millstream.cli.failure import CommandFailed
    from millstream.cli.output import show_document
    from millstream.cli.waiting import coordinators_of
    from millstream.client.groups import CLASSIC, CONSUMER, list_groups

    if args.all == bool(args.names):
        raise CommandFailed("name the groups to describe, or give --all", exit_code=2)
    coordinators = coordinators_of(cluster)
    names = list(dict.fromkeys(args.names))
    if args.all:  # Of all that are described in these ways; share groups, for one, are not.
        names = [group.name for group in await list_groups(coordinators) if group.protocol in (CLASSIC, CONSUMER)]
    documents, refusals = await _documents(coordinators, names, args.view)
    if args.output != "table":
        show_document(documents, args.output)
    elif args.view == "state":
        _print_states(documents)
    else:
        show_one = {None: _print_group, "offsets": _print_offsets, "members": _print_members}[args.view]
        for number, document in enumerate(documents):
            if number:
                print()
            show_one(document)
    for refusal in refusals:
        print(f"millstream: {refusal}", file=sys.stderr)
    return 1 if refusals else 0


async def _documents(coordinators: Coordinators, names: list[str], view: str | None) -> tuple[list[Row], list[str]]:
    """The groups that could be described, and the refusals of the others."""
    import asyncio

    from millstream.cli.failure import refusal
    from millstream.cli.group.document import describe
    from millstream.model.errors import ProtocolError

    gate = asyncio.Semaphore(GROUPS_AT_ONCE)

    async def one(name: str) -> Row | str:
        async with gate:
            try:
                return await describe(coordinators, name, offsets=view in (None, "offsets"))
            except ProtocolError as error:
                return refusal(error.code.name, error.detail)

    found = await asyncio.gather(*map(one, names))
    return [each for each in found if not isinstance(each, str)], [each for each in found if isinstance(each, str)]


def _print_group(document: Row) -> None:
    """All that matters on one screen."""
    from millstream.cli.output import table
    from millstream.cli.times import duration_text

    members, rows = _rows(document, "members"), _rows(document, "partitions")
    _print_heading(document)
    behind = document["lag_seconds"]
    age = f", {duration_text(round(behind * 1000))} behind" if isinstance(behind, float) and document["lag"] else ""
    print(f"{_count(members, 'member')}, {_count(rows, 'partition')}, lag {document['lag']}{age}{_never(document)}")
    if rows:
        print()
        _print_partitions(rows)
    if idle := [member for member in members if not member["partitions"]]:
        print()
        print("members without partitions")
        print(table(idle, _owner_columns(idle)))


def _never(document: Row) -> str:
    """What no lag is known of: the group has no offset there, and where it begins is its consumers' choice."""
    unread = document["never_committed"]
    assert isinstance(unread, dict)
    count, records = unread["partitions"], unread["records"]
    if not count:
        return ""
    return f" + {count} partition{'s' * (count != 1)} never committed ({records} record{'s' * (records != 1)})"


def _print_offsets(document: Row) -> None:
    print(f"group {document['name']}")
    _print_partitions(_rows(document, "partitions"))


def _print_partitions(rows: list[Row]) -> None:
    """Columns in which no row has anything are left out."""
    from millstream.cli.output import table

    owners = _owner_columns(rows) if any(row["member"] for row in rows) else ()
    notes = ("metadata",) if any(row["metadata"] for row in rows) else ()
    print(table(rows, (*OFFSET_COLUMNS, *owners, *notes)))


def _owner_columns(rows: list[Row]) -> tuple[str, ...]:
    """Names of instances only where a member has one, as static members do."""
    return STATIC_OWNER_COLUMNS if any(row["instance"] for row in rows) else OWNER_COLUMNS


def _print_members(document: Row) -> None:
    from millstream.cli.output import table

    _print_heading(document)
    rows = [
        {**member, "partitions": len(assigned), "assignment": _by_topic(assigned) or None}
        for member in _rows(document, "members")
        if isinstance(assigned := member["partitions"], list)
    ]
    print(table(rows, MEMBER_COLUMNS) if rows else "no members")


def _print_states(documents: list[Row]) -> None:
    from millstream.cli.output import table

    rows = [
        {
            **document,
            "group": document["name"],
            "coordinator": _coordinator(document),
            "members": len(_rows(document, "members")),
        }
        for document in documents
    ]
    print(table(rows, STATE_COLUMNS))


def _print_heading(document: Row) -> None:
    assignor = f", assignor {document['assignor']}" if document["assignor"] else ""
    kind = document["protocol_type"]
    of_what = f" of type {kind}" if kind not in ("", "consumer") else ""
    print(f"group {document['name']}, {document['protocol']} protocol{of_what}, {document['state']}")
    print(f"coordinator {_coordinator(document)}{assignor}")


def _coordinator(document: Row) -> str:
    node = document["coordinator"]
    assert isinstance(node, dict)
    return f"{node['id']} ({node['address']})"


def _by_topic(partitions: list[str]) -> str:
    """``orders:0,1 refunds:4`` for the partitions named."""
    numbers: dict[str, list[str]] = {}
    for each in partitions:
        topic, _, number = each.rpartition("-")
        numbers.setdefault(topic, []).append(number)
    return " ".join(f"{topic}:{','.join(listed)}" for topic, listed in numbers.items())


def _rows(document: Row, name: str) -> list[Row]:
    rows = document[name]
    assert isinstance(rows, list)
    return rows


def _count(rows: list[Row], noun: str) -> str:
    return f"{len(rows)} {noun}" if len(rows) == 1 else f"{len(rows)} {noun}s"
