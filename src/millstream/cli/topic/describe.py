"""Show topics: partitions, leaders, offsets, and settings that are not defaults.

LAG is how many records each of the other replicas still has to copy, in their
order. ELIGIBLE are replicas out of sync that may lead all the same, for nothing
was committed without them.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from millstream.cli.options import add_output_option
from millstream.model.ids import TopicPartition, uuid_text

if TYPE_CHECKING:
    from millstream.client.cluster import Cluster, Topic

PARTITION_COLUMNS = ("partition", "leader", "epoch", "replicas", "in_sync", "start_offset", "end_offset", "records")
#: Shown where a partition has something to say there.
FURTHER_COLUMNS = ("eligible", "offline", "lag", "bytes")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="TOPIC")
    parser.add_argument("-a", "--all-settings", action="store_true", help="show settings that have their defaults too")
    parser.add_argument("-s", "--sizes", action="store_true", help="show how many bytes each partition takes on disk")
    parser.add_argument("--under-replicated", action="store_true", help="only partitions with a replica out of sync")
    add_output_option(parser)


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    from millstream.cli.output import show_document

    await cluster.refresh(args.names)
    documents = [await _describe(cluster, await cluster.topic(name), args) for name in args.names]
    if args.output != "table":
        show_document(documents, args.output)
        return 0
    for number, document in enumerate(documents):
        if number:
            print()
        _print_topic(document)
    return 0


async def _describe(cluster: Cluster, topic: Topic, args: argparse.Namespace) -> dict[str, object]:
    from millstream.client.admin import Resource, describe_configs, eligible_leaders, partition_sizes, replica_lags
    from millstream.client.partitions import EARLIEST, LATEST, list_offsets

    is_replicated = any(len(part.replicas) > 1 for part in topic.partitions)
    lags = await replica_lags(cluster, topic) if is_replicated else {}
    eligible = await eligible_leaders(cluster, topic) if is_replicated else {}
    led = [TopicPartition(topic.name, part.index) for part in topic.partitions if part.leader >= 0]
    starts = await list_offsets(cluster, dict.fromkeys(led, EARLIEST))
    ends = await list_offsets(cluster, dict.fromkeys(led, LATEST))
    sizes = await partition_sizes(cluster) if args.sizes else {}
    rows = []
    for part in topic.partitions:
        tp = TopicPartition(topic.name, part.index)
        start, end = (found[tp].offset if tp in found else None for found in (starts, ends))
        if args.under_replicated and len(part.in_sync) >= len(part.replicas):
            continue
        rows.append(
            {
                "partition": part.index,
                "leader": part.leader if part.leader >= 0 else None,
                "epoch": part.leader_epoch,
                "replicas": part.replicas,
                "in_sync": part.in_sync,
                "eligible": eligible.get(part.index, []),
                "offline": part.offline,
                "lag": [lags.get((part.index, replica)) for replica in part.replicas if replica != part.leader],
                "start_offset": start,
                "end_offset": end,
                "records": None if start is None or end is None else end - start,
                **({"bytes": sizes.get(tp)} if args.sizes else {}),
            }
        )
    settings = await describe_configs(cluster, Resource.TOPIC, topic.name)
    return {
        "name": topic.name,
        "id": uuid_text(topic.id),
        "internal": topic.is_internal,
        "partitions": rows,
        "settings": [
            {"name": setting.name, "value": setting.value, "source": setting.source}
            for setting in settings
            if args.all_settings or setting.source != "default"
        ],
    }


def _print_topic(document: dict[str, object]) -> None:
    from millstream.cli.output import table

    rows, settings = document["partitions"], document["settings"]
    assert isinstance(rows, list) and isinstance(settings, list)
    internal = " (internal)" if document["internal"] else ""
    print(f"topic {document['name']}{internal}, id {document['id']}")
    print()
    further = [name for name in FURTHER_COLUMNS if any(row.get(name) not in ([], None) for row in rows)]
    print(table(rows, (*PARTITION_COLUMNS, *further)))
    if settings:
        print()
        print(table(settings, ("name", "value", "source")))
