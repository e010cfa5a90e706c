"""Plan where partitions should be, so that every broker has its share.

millstream reassign plan -o json > plan.json
millstream reassign execute plan.json

As little is copied as can be, and no rack holds a partition twice while another
could. A broker that is not among --brokers is emptied. Partitions keep as many
replicas as they have, unless -r gives another number.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection
from typing import TYPE_CHECKING

from millstream.cli.options import add_output_option, broker_numbers, positive

if TYPE_CHECKING:
    from millstream.cli.reassign.document import Plan
    from millstream.client.cluster import Cluster


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help="plan for these only (default: all)")
    parser.add_argument("--brokers", type=broker_numbers, metavar="ID[,ID…]", help="let these hold them (default: all)")
    parser.add_argument("-r", "--replicas", type=positive, metavar="COUNT", help="give each partition so many replicas")
    add_output_option(parser)


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    from millstream.cli.output import show_document
    from millstream.cli.reassign.document import document_of
    from millstream.controller.planning import plan

    current = await _current(cluster, args.topics)
    brokers = _brokers(cluster, args)
    check_room(current, brokers, cluster.brokers, args.replicas)
    planned = plan({(key.topic, key.partition): current[key] for key in current}, brokers, args.replicas)
    changed: Plan = {key: list(planned[key]) for key in current if key in planned}
    if args.output != "table":
        show_document(document_of(changed), args.output)
    else:
        print_plan(current, changed)
    return 0


async def _current(cluster: Cluster, topics: list[str]) -> Plan:
    """Where partitions are, and those on their way will be."""
    from millstream.client.moves import moves
    from millstream.model.ids import TopicPartition

    moving = await moves(cluster)
    await cluster.refresh(topics or None)
    names = topics or sorted(cluster.topics)
    current = {
        TopicPartition(name, partition.index): partition.replicas
        for name in names
        for partition in (await cluster.topic(name)).partitions
    }
    for key in current.keys() & moving.keys():
        current[key] = [broker for broker in moving[key].replicas if broker not in moving[key].removing]
    return current


def _brokers(cluster: Cluster, args: argparse.Namespace) -> dict[int, str | None]:
    from millstream.cli.failure import CommandFailed

    wanted = args.brokers or sorted(cluster.brokers)
    missing = [number for number in wanted if number not in cluster.brokers]
    if missing:
        raise CommandFailed(f"there is no broker {missing[0]} now, only {_listed(cluster.brokers)}", exit_code=2)
    return {number: cluster.racks.get(number) for number in wanted}


def check_room(current: Plan, brokers: Collection[int], alive: Collection[int], replicas: int | None) -> None:
    """CommandFailed where ``brokers`` are too few for the replicas asked for, or for those that a partition has."""
    from millstream.cli.failure import CommandFailed

    down = {broker for held in current.values() for broker in held}.difference(alive)
    takers = f"only {_counted(len(brokers), 'broker')} can take replicas ({_listed(brokers)})"
    if down:
        takers += f"; down: {_listed(down)}"
    if replicas is not None and replicas > len(brokers):
        raise CommandFailed(f"-r {replicas} asks for {replicas} replicas: {takers}", exit_code=2)
    for key, held in current.items():
        if replicas is None and len(held) > len(brokers):
            has = f"topic {key.topic!r} has replication factor {len(held)}"
            raise CommandFailed(f"{has}: {takers}; -r N would choose another", exit_code=2)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' * (count != 1)}"


def _listed(brokers: Collection[int]) -> str:
    return ", ".join(map(str, sorted(brokers)))


def print_plan(current: Plan, changed: Plan) -> None:
    """What changes, a row for each partition, and how much of it is copied."""
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
    changes = "changes" if len(changed) == 1 else "change"
    copied = f"{_counted(copies, 'replica')} {'is' if copies == 1 else 'are'} copied"
    print(f"\n{len(changed)} of {_counted(len(current), 'partition')} {changes}, {copied}")
