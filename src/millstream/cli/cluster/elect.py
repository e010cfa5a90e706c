"""Elect leaders: the preferred ones, or whoever is there where nobody else can.

millstream cluster elect                      (all that another leads now)
millstream cluster elect orders payments:0,3
millstream cluster elect --unclean orders:3   (records may be lost)
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from millstream.cli.options import add_output_option, topic_choice

if TYPE_CHECKING:
    from millstream.client.admin import Outcome
    from millstream.client.cluster import Cluster
    from millstream.client.moves import Election
    from millstream.model.ids import TopicPartition


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "topics", nargs="*", type=topic_choice, metavar="TOPIC[:N,…]", help="of these only (default: all)"
    )
    parser.add_argument(
        "--unclean",
        action="store_true",
        help="where nobody leads, let any live replica lead; what it lacks is lost",
    )
    add_output_option(parser)


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    from millstream.cli.failure import CommandFailed
    from millstream.cli.outcomes import report
    from millstream.client.moves import Election, elect_leaders

    if args.unclean and not args.topics:
        raise CommandFailed("--unclean may lose records: name the topics or partitions", exit_code=2)
    wanted = await _partitions(cluster, args.topics) if args.topics else None
    kind = Election.UNCLEAN if args.unclean else Election.PREFERRED
    outcomes = [await _with_leader(cluster, kind, outcome) for outcome in await elect_leaders(cluster, kind, wanted)]
    if not outcomes and args.output == "table":
        print("all are led as they should be")
        return 0
    return report(outcomes, "elected", args.output, frozenset({"ELECTION_NOT_NEEDED"}), noun="partition")


async def _with_leader(cluster: Cluster, kind: Election, outcome: Outcome) -> Outcome:
    """The same, saying who was elected."""
    from millstream.client.moves import Election
    from millstream.model.ids import TopicPartition

    if outcome.code:
        return outcome
    topic, _, number = outcome.name.rpartition("-")
    key = TopicPartition(topic, int(number))
    if kind is Election.UNCLEAN:  # Whoever it is, brokers may hear of it a little later than we.
        await cluster.retrying([topic], lambda: cluster.leader(key))
    partition = await cluster.partition(key)
    elected = partition.leader if kind is Election.UNCLEAN else partition.replicas[0]
    return outcome._replace(detail=f"elected broker {elected}")


async def _partitions(cluster: Cluster, choices: list[tuple[str, list[int] | None]]) -> list[TopicPartition]:
    from millstream.model.ids import TopicPartition

    found = []
    for name, numbers in choices:
        if numbers is None:
            numbers = [partition.index for partition in (await cluster.topic(name)).partitions]
        found += [TopicPartition(name, number) for number in numbers]
    return found
