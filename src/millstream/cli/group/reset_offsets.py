"""Let a group read on from elsewhere: move the offsets it has committed.

The group must have no members. Offsets outside a partition are taken to its
nearest end. What a dry run prints with `-o json` is what --from-file takes, and
so are lines of topic,partition,offset.

millstream group reset-offsets billing --topic orders --to-earliest --dry-run
millstream group reset-offsets billing --topic orders:0,3 --by-duration 2h
millstream group reset-offsets billing --all-topics --shift-by -100
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from millstream.cli.options import add_output_option, duration_ms, not_negative, topic_choice

if TYPE_CHECKING:
    from millstream.cli.group.reset_plan import Wish
    from millstream.client.cluster import Cluster
    from millstream.client.coordinators import Coordinators

COLUMNS = ("topic", "partition", "current_offset", "new_offset", "note")

#: ``--shift-by -100`` begins with a minus, which argparse would take for an option; so do ``--to-datetime -1h``, and
#: ``--by-duration -1h``, which is told what is wrong with it.
SIGNED_OPTIONS = ("--shift-by", "--to-datetime", "--by-duration")


def configure(parser: argparse.ArgumentParser) -> None:
    # The one argparse would write names every place in one long line.
    parser.usage = "%(prog)s GROUP -t TOPIC[:N,…] WHERE-TO [OPTION]…"
    parser.add_argument("group", metavar="GROUP")
    parser.add_argument(
        "-t",
        "--topic",
        dest="topics",
        action="append",
        default=[],
        type=topic_choice,
        metavar="TOPIC[:N,…]",
        help="a topic, or some of its partitions; may be repeated",
    )
    parser.add_argument("--all-topics", action="store_true", help="all topics the group has offsets of")
    group = parser.add_argument_group("where to")
    place = group.add_mutually_exclusive_group(required=True)
    place.add_argument("--to-earliest", action="store_true", help="the first record there is")
    place.add_argument("--to-latest", action="store_true", help="what comes next")
    place.add_argument("--to-offset", type=not_negative, metavar="N", help="this offset")
    place.add_argument("--to-datetime", metavar="TIME", help="the first record at or after 2026-01-31T12:00:00Z")
    place.add_argument("--by-duration", type=duration_ms, metavar="DURATION", help="so long ago: 90s, 1.5h, 7d, PT1H")
    place.add_argument("--shift-by", type=int, metavar="N", help="so many records on, or back when negative")
    place.add_argument("--to-current", action="store_true", help="where it is; the end for a partition never read")
    place.add_argument("--from-file", metavar="FILE", help="as a file says, `-` for standard input")
    parser.add_argument("--dry-run", action="store_true", help="only show what would be done")
    add_output_option(parser)


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    from millstream.cli.group.reset_plan import plan
    from millstream.cli.output import show
    from millstream.cli.waiting import coordinators_of
    from millstream.client.groups import commit_offsets, committed_offsets
    from millstream.model.ids import TopicPartition

    wish = _wish(args)
    coordinators = coordinators_of(cluster)
    await _check_without_members(coordinators, args.group, dry_run=args.dry_run)
    committed = await committed_offsets(coordinators, args.group)
    moves = await plan(cluster, wish, {tp: place.offset for tp, place in committed.items()})
    if not args.dry_run:
        offsets = {TopicPartition(move.topic, move.partition): move.new_offset for move in moves}
        await commit_offsets(coordinators, args.group, offsets)
    rows = [{"group": args.group, **move._asdict()} for move in moves]
    show(rows, args.output, COLUMNS if any(move.note for move in moves) else COLUMNS[:-1])
    if args.dry_run and args.output == "table":
        print("millstream: a dry run; nothing was changed", file=sys.stderr)
    return 0


def _wish(args: argparse.Namespace) -> Wish:
    """What the options ask for; a misuse is told before anything is asked of the cluster."""
    import time

    from millstream.cli.failure import CommandFailed
    from millstream.cli.group.reset_plan import Place, Wish, read_file
    from millstream.cli.times import ago_ms, parse_moment_ms

    if args.from_file is not None:
        if args.topics or args.all_topics:
            raise CommandFailed("--from-file names the topics itself; leave out --topic and --all-topics", exit_code=2)
        return Wish(Place.GIVEN, given=read_file(args.from_file, args.group))
    if args.all_topics and args.topics:
        raise CommandFailed("give --topic or --all-topics, and not both", exit_code=2)
    if not args.all_topics and not args.topics:
        raise CommandFailed("say which topics: --topic TOPIC[:PARTITION,…] or --all-topics", exit_code=2)
    topics = args.topics or None
    now_ms = time.time_ns() // 1_000_000
    if args.to_datetime is not None:
        try:
            return Wish(Place.MOMENT, parse_moment_ms(args.to_datetime, now_ms), topics)
        except ValueError as error:
            raise CommandFailed(f"--to-datetime: {error}", exit_code=2) from None
    if args.by_duration is not None:
        return Wish(Place.MOMENT, ago_ms(now_ms, args.by_duration), topics)
    if args.to_offset is not None:
        return Wish(Place.OFFSET, args.to_offset, topics)
    if args.shift_by is not None:
        return Wish(Place.CURRENT, args.shift_by, topics)
    if args.to_current:
        return Wish(Place.CURRENT, None, topics)
    return Wish(Place.START if args.to_earliest else Place.END, 0, topics)


async def _check_without_members(coordinators: Coordinators, name: str, *, dry_run: bool) -> None:
    """Refuse while consumers run: they would go on from where they are and commit over it."""
    from millstream.cli.failure import CommandFailed
    from millstream.client.groups import describe_group
    from millstream.model.errors import ErrorCode, ProtocolError

    try:
        group = await describe_group(coordinators, name)
    except ProtocolError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        print(f"millstream: there is no group {name!r} yet; this makes it", file=sys.stderr)
        return
    if not group.members:
        return
    clients = sorted({f"{member.client_id} at {member.host.lstrip('/')}" for member in group.members})
    shown = ", ".join(clients[:3]) + (" and others" if len(clients) > 3 else "")
    told = f"group {name!r} is {group.state} with members ({shown})"
    if not dry_run:
        raise CommandFailed(f"{told}; stop them, then reset its offsets")
    print(f"millstream: {told}; they must be stopped before its offsets can be reset", file=sys.stderr)
