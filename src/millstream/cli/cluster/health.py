"""Show what is wrong with the cluster; ends with 1 while something is.

A partition without a leader can be neither written nor read. One that is under-
replicated has fewer copies in sync than it should; under min.insync.replicas it
takes no writes with acks=all.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from millstream.cli.options import add_output_option, positive_seconds

if TYPE_CHECKING:
    from millstream.client.cluster import Cluster

WATCH_EVERY_S = 2.0


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-w", "--watch", action="store_true", help="look again and again, and print what changed")
    parser.add_argument("-e", "--exit-when-healthy", action="store_true", help="end as soon as all is well")
    parser.add_argument(
        "--interval",
        dest="interval_s",
        type=positive_seconds,
        default=WATCH_EVERY_S,
        metavar="SECONDS",
        help=f"how often to look (default: {WATCH_EVERY_S:g})",
    )
    add_output_option(parser)


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    import asyncio

    shown: dict[str, object] | None = None
    while True:
        document = await _look(cluster, shown)
        if document != shown:
            _show(document, args.output, is_first=shown is None)
            shown = document
        is_healthy = bool(document["healthy"])
        if (is_healthy and args.exit_when_healthy) or not (args.watch or args.exit_when_healthy):
            return 0 if is_healthy else 1
        await asyncio.sleep(args.interval_s)


async def _look(cluster: Cluster, before: dict[str, object] | None) -> dict[str, object]:
    """The cluster's health; while nobody answers, as it was before but not healthy."""
    from millstream.cli.failure import CommandFailed
    from millstream.client.wire import Unreachable

    try:
        return await _document(cluster)
    except (OSError, TimeoutError) as error:
        if before is not None:
            return {**before, "healthy": False, "unreachable": str(error)}
        if not cluster.brokers:
            raise
        seen = error.seen if isinstance(error, Unreachable) else str(error) or "no answer came in time"
        raise CommandFailed(
            f"{seen}, and the cluster does not know it; where that lasts, see whether its registry (ZooKeeper) runs"
        ) from None


async def _document(cluster: Cluster) -> dict[str, object]:
    from millstream.client.admin import acting_controller
    from millstream.client.moves import moves
    from millstream.model.ids import TopicPartition

    await cluster.refresh(None)
    controller = await acting_controller(cluster)
    partitions = {
        TopicPartition(topic.name, part.index): part for topic in cluster.topics.values() for part in topic.partitions
    }
    behind = {key: part for key, part in sorted(partitions.items()) if len(part.in_sync) < len(part.replicas)}
    least = await _least_in_sync(cluster, {key.topic for key in behind})
    has_controller = controller in cluster.brokers
    moving = await moves(cluster) if has_controller else {}
    down = sorted({broker for part in partitions.values() for broker in part.replicas} - cluster.brokers.keys())
    leaderless = [str(key) for key, part in sorted(partitions.items()) if part.leader < 0]
    # While it moves, a partition has replicas that are not in sync yet, and that is as it should be.
    under = [str(key) for key in behind if key not in moving]
    short = [str(key) for key, part in behind.items() if len(part.in_sync) < min(least[key.topic], len(part.replicas))]
    return {
        "healthy": has_controller and not (down or leaderless or under or short),
        "controller": controller if has_controller else None,
        "brokers": sorted(cluster.brokers),
        "brokers_down": down,
        "partitions": len(partitions),
        "leaderless": leaderless,
        "under_replicated": under,
        "under_min_in_sync": short,
        "moving": [str(key) for key in sorted(moving)],
    }


async def _least_in_sync(cluster: Cluster, topics: set[str]) -> dict[str, int]:
    from millstream.client.admin import Resource, describe_configs

    least = {}
    for topic in sorted(topics):
        settings = await describe_configs(cluster, Resource.TOPIC, topic)
        least[topic] = next((int(each.value or 1) for each in settings if each.name == "min.insync.replicas"), 1)
    return least


#: Names shown of a long list.
NAMES_MAX = 10
NO_CONTROLLER = "none; where that lasts, see whether the cluster's registry (ZooKeeper) runs"


def _show(document: dict[str, object], output: str, *, is_first: bool) -> None:
    if output != "table":
        from millstream.cli.output import show_document

        show_document(document, output)
        return
    import sys
    import time

    from millstream.cli.output import cell

    if not is_first:
        print(f"\nat {time.strftime('%H:%M:%S')}")
    print(f"healthy: {cell(document['healthy'])}")
    for name, value in document.items():
        if name == "healthy" or value == []:
            continue
        text = cell(value)
        if name == "controller" and value is None:
            text = NO_CONTROLLER
        elif isinstance(value, list) and len(value) > NAMES_MAX:
            text = f"{len(value)}: {cell(value[:NAMES_MAX])},…"
        print(f"{name.replace('_', ' ')}: {text}")
    sys.stdout.flush()
