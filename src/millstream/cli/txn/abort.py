"""Abort transactions that their producers do not end.

By transactional id: the open transaction is aborted and its producer fenced. It
is fenced too where none is open, and has to be made anew before it can go on.
A query's (millstream-sink/...) may be decided, and its records are lost then:
start the query again, and it ends them as it should.
By its place in a partition: for one that its coordinator has forgotten, which
holds up everyone who reads committed records there; see it with
`millstream txn describe --topic orders --open`.

millstream txn abort mover-1
millstream txn abort --topic orders:0 --start-offset 1000
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from millstream.cli.options import add_output_option, not_negative, topic_choice

if TYPE_CHECKING:
    from millstream.client.admin import Outcome
    from millstream.client.cluster import Cluster
    from millstream.client.coordinators import Coordinators


NOTHING_OPEN = "no transaction was open; its producer is fenced"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="TRANSACTIONAL-ID")
    parser.add_argument("-t", "--topic", type=topic_choice, metavar="TOPIC[:N]", help="where it hangs")
    parser.add_argument("-p", "--partition", type=not_negative, metavar="N", help="the topic's partition")
    parser.add_argument("--start-offset", type=not_negative, metavar="N", help="the first offset of the transaction")
    add_output_option(parser)


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    from millstream.cli.failure import CommandFailed
    from millstream.cli.outcomes import report
    from millstream.cli.waiting import coordinators_of

    if bool(args.names) == bool(args.topic):
        raise CommandFailed("name transactional ids, or a place with --topic and --start-offset", exit_code=2)
    if args.names:
        coordinators = coordinators_of(cluster)
        outcomes = [await _fence(coordinators, name) for name in dict.fromkeys(args.names)]
        return report(outcomes, "aborted", args.output, noun="transactional_id")
    return report([await _abort_hanging(cluster, args)], "aborted", args.output, noun="transaction")


async def _fence(coordinators: Coordinators, name: str) -> Outcome:
    """Looks first: to fence an id that nobody has would make it."""
    from millstream.client.admin import Outcome
    from millstream.client.transactions import OPEN_STATES, describe_transaction, fence
    from millstream.model.errors import ErrorCode, ProtocolError

    try:
        before = await describe_transaction(coordinators, name)
        await fence(coordinators, name)
    except ProtocolError as error:
        return Outcome(name, error.code, error.detail)
    return Outcome(name, ErrorCode.NONE, "" if before.state in OPEN_STATES else NOTHING_OPEN)


def _place(args: argparse.Namespace) -> tuple[str, int]:
    """The one partition that is meant; CommandFailed says what is missing, or too much."""
    from millstream.cli.failure import CommandFailed

    topic, numbers = args.topic
    chosen = (numbers or []) if args.partition is None else [args.partition]
    wrong = ""
    if not chosen:
        wrong = "the partition is missing"
    elif len(chosen) > 1:
        wrong = f"{len(chosen)} partitions are named"
    elif args.start_offset is None:
        wrong = "--start-offset is missing"
    if wrong:
        raise CommandFailed(f"{wrong}; one place is needed: --topic {topic}:0 --start-offset 1000", exit_code=2)
    return topic, chosen[0]


async def _abort_hanging(cluster: Cluster, args: argparse.Namespace) -> Outcome:
    from millstream.cli.failure import CommandFailed
    from millstream.cli.reading import partitions_of
    from millstream.client.admin import Outcome
    from millstream.client.transactions import abort_in_partition, describe_producers
    from millstream.model.errors import ErrorCode

    topic, partition = _place(args)
    [tp] = await partitions_of(cluster, [topic], [partition])
    producers = await describe_producers(cluster, [tp])
    here = [each for each in producers if each.open_since_offset == args.start_offset]
    if not here:
        starts = sorted(each.open_since_offset for each in producers if each.open_since_offset >= 0)
        there = f"open ones start at {', '.join(map(str, starts))}" if starts else "none is open there"
        raise CommandFailed(f"no transaction of partition {tp} starts at {args.start_offset}; {there}")
    await abort_in_partition(cluster, here[0])
    return Outcome(f"the transaction of producer {here[0].id} in {tp}", ErrorCode.NONE)
