"""Show the cluster's id, its controller, its brokers and what they hold."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING

from millstream.cli.options import add_output_option

if TYPE_CHECKING:
    from millstream.client.cluster import Cluster


def configure(parser: argparse.ArgumentParser) -> None:
    add_output_option(parser)


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    from millstream.cli.output import show_document
    from millstream.client.admin import acting_controller

    await cluster.refresh(None)
    document = _document(cluster, await acting_controller(cluster))
    if args.output != "table":
        show_document(document, args.output)
    else:
        _print_cluster(document)
    return 0


def _document(cluster: Cluster, controller: int | None) -> dict[str, object]:
    partitions = [partition for topic in cluster.topics.values() for partition in topic.partitions]
    leaders = Counter(partition.leader for partition in partitions)
    replicas = Counter(replica for partition in partitions for replica in partition.replicas)
    return {
        "cluster_id": cluster.cluster_id,
        "controller": controller,
        "topics": len(cluster.topics),
        "partitions": len(partitions),
        "under_replicated": sum(len(part.in_sync) < len(part.replicas) for part in partitions),
        "offline": leaders[-1],
        "brokers": [
            {
                "id": node_id,
                "state": "up" if node_id in cluster.brokers else "down",
                "address": str(cluster.brokers[node_id]) if node_id in cluster.brokers else None,
                "rack": cluster.racks.get(node_id),
                "leaders": leaders[node_id],
                "replicas": replicas[node_id],
            }
            # Those that hold replicas and are not there are down, not gone.
            for node_id in sorted(cluster.brokers.keys() | replicas.keys())
        ],
    }


def _print_cluster(document: dict[str, object]) -> None:
    from millstream.cli.output import cell, table

    brokers = document["brokers"]
    assert isinstance(brokers, list)
    print(f"cluster {document['cluster_id']}, controller {cell(document['controller'])}")
    print(
        f"{document['topics']} topics, {document['partitions']} partitions "
        f"({document['under_replicated']} under-replicated, {document['offline']} offline)"
    )
    print()
    print(table(brokers, ("id", "state", "address", "rack", "leaders", "replicas")))
