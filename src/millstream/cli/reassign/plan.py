"""Plan where partitions should be, so that every broker has its share.

millstream reassign plan -o json > plan.json
millstream reassign execute plan.json

As little is copied as can be, and no rack holds a partition twice while another
could. A broker that is not among --brokers is emptied.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from millstream.cli.options import add_output_option, partition_numbers, positive

if TYPE_CHECKING:
    from millstream.cli.reassign.document import Plan
    from millstream.client.cluster import Cluster


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help="plan for these only (default: all)")
    parser.add_argument(
        "--brokers", type=partition_numbers, metavar="ID[,ID…]", help="let these hold them (default: all)"
    )
    parser.add_argument("-r", "--replicas", type=positive, metavar="COUNT", help="give each partition so many replicas")
    add_output_option(parser)


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    from millstream.cli.output import show_document
    from millstream.cli.reassign.document import document_of
    from millstream.controller.planning import plan

    current = await _current(cluster, args.topics)
    planned = plan(
        {(key.topic, key.partition): current[key] for key in current}, _brokers(cluster, args), args.replicas
    )
    changed: Plan = {key: list(planned[key]) for key in current if key in planned}
    if args.output != "table":
        show_document(document_of(changed), args.output)
    else:
        _print_plan(current, changed)
    return 0


async def _current(cluster: Cluster, topics: list[str]) -> Plan:
    from millstream.model.ids import TopicPartition

    await cluster.refresh(topics or None)
    names = topics or sorted(cluster.topics)
    return {
        TopicPartition(name, partition.index): partition.replicas
        for name in names
        for partition in (await cluster.topic(name)).partitions
    }


def _brokers(cluster: Cluster, args: argparse.Namespace) -> dict[int, str | None]:
    from millstream.cli.failure import CommandFailed

    wanted = args.brokers or sorted(cluster.brokers)
    missing = [number for number in wanted if number not in cluster.brokers]
    if missing:
        known = ", ".join(map(str, sorted(cluster.brokers)))
        raise CommandFailed(f"there is no broker {missing[0]} now, only {known}", exit_code=2)
    return {number: cluster.racks.get(number) for number in wanted}


def _print_plan(current: Plan, changed: Plan) -> None:
    from millstream.cli.output import table

    if not changed:
        print("every broker has its share")
        return
    rows = [
        {
            "topic": key.topic,
            "partition": key.partition,
            "from": current[key],
            "to": replicas,
            "copies": len(set(replicas) - set(current[key])),
        }
        for key, replicas in changed.items()
    ]
    print(table(rows))
    copies = sum(len(set(replicas) - set(current[key])) for key, replicas in changed.items())
    print(f"\n{len(changed)} of {len(current)} partitions change, {copies} replicas are copied")
