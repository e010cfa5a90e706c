"""Forget a group's offsets of topics, or partitions, that it does not read now.

millstream group delete-offsets billing --topic orders:0,3 --topic refunds
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from millstream.cli.options import add_output_option, topic_choice

if TYPE_CHECKING:
    from millstream.client.cluster import Cluster


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP")
    parser.add_argument(
        "-t",
        "--topic",
        dest="topics",
        action="append",
        required=True,
        type=topic_choice,
        metavar="TOPIC[:N,…]",
        help="a topic, or some of its partitions; may be repeated",
    )
    add_output_option(parser)


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    from shlex import quote

    from millstream.cli.failure import CommandFailed
    from millstream.cli.outcomes import report
    from millstream.cli.waiting import coordinators_of
    from millstream.client.admin import Outcome
    from millstream.client.groups import committed_offsets, delete_offsets, describe_group
    from millstream.model.ids import TopicPartition

    coordinators = coordinators_of(cluster)
    await describe_group(coordinators, args.group)  # Says so when there is none.
    committed = await committed_offsets(coordinators, args.group)
    partitions = []
    for topic, numbers in args.topics:
        if numbers is None:  # A topic that is gone has no partitions, but may still have offsets.
            partitions += [tp for tp in committed if tp.topic == topic]
        else:
            partitions += [TopicPartition(topic, number) for number in numbers]
    if unknown := [str(tp) for tp in partitions if tp not in committed]:
        raise CommandFailed(
            f"group {args.group!r} has no offset of {', '.join(unknown)}; nothing was deleted; "
            f"see what it has with: millstream group describe {quote(args.group)}"
        )
    if not partitions and args.output == "table":
        print(f"group {args.group} has no offsets of these topics")
    codes = await delete_offsets(coordinators, args.group, dict.fromkeys(partitions)) if partitions else {}
    outcomes = [Outcome(str(tp), code) for tp, code in sorted(codes.items())]
    return report(outcomes, "deleted the offset of", args.output, noun="partition")
