"""Show where transactions stand, or the producers that a topic's partitions know.

millstream txn describe mover-1
millstream txn describe --topic orders:0
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from millstream.cli.options import add_output_option, topic_choice

if TYPE_CHECKING:
    from millstream.client.cluster import Cluster
    from millstream.client.transactions import Producer, Transaction

PRODUCER_COLUMNS = (
    "topic",
    "partition",
    "producer_id",
    "producer_epoch",
    "last_sequence",
    "last_write",
    "coordinator_epoch",
    "open_since_offset",
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="TRANSACTIONAL-ID")
    parser.add_argument(
        "-t",
        "--topic",
        dest="topics",
        action="append",
        default=[],
        type=topic_choice,
        metavar="TOPIC[:N,…]",
        help="the producers that wrote to it; may be repeated",
    )
    parser.add_argument(
        "--open", action="store_true", help="of a topic's producers only those with an open transaction"
    )
    add_output_option(parser)


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    from millstream.cli.failure import CommandFailed

    if bool(args.names) == bool(args.topics):
        raise CommandFailed("name transactional ids, or a topic with --topic", exit_code=2)
    return await (_transactions(cluster, args) if args.names else _producers(cluster, args))


async def _transactions(cluster: Cluster, args: argparse.Namespace) -> int:
    import asyncio

    from millstream.cli.failure import refusal
    from millstream.cli.output import show_document
    from millstream.cli.waiting import coordinators_of
    from millstream.client.transactions import describe_transaction
    from millstream.model.errors import ProtocolError

    coordinators = coordinators_of(cluster)

    async def one(name: str) -> Transaction | str:
        try:
            return await describe_transaction(coordinators, name)
        except ProtocolError as error:
            return refusal(error.code.name, error.detail)

    found = await asyncio.gather(*map(one, dict.fromkeys(args.names)))
    documents = [_document(each) for each in found if not isinstance(each, str)]
    if args.output != "table":
        show_document(documents, args.output)
    else:
        for number, document in enumerate(documents):
            if number:
                print()
            _print_transaction(document)
    refusals = [each for each in found if isinstance(each, str)]
    for line in refusals:
        print(f"millstream: {line}", file=sys.stderr)
    return 1 if refusals else 0


def _document(each: Transaction) -> dict[str, object]:
    import time

    from millstream.cli.times import moment_text

    now_ms = time.time_ns() // 1_000_000
    return {
        "transactional_id": each.id,
        "state": each.state,
        "producer_id": each.producer_id,
        "producer_epoch": each.producer_epoch,
        "timeout_ms": each.timeout_ms,
        "started": None if each.start_ms is None else moment_text(each.start_ms),
        "age_seconds": None if each.start_ms is None else round(max(0, now_ms - each.start_ms) / 1000, 1),
        "coordinator": {"id": each.coordinator.id, "address": str(each.coordinator.address)},
        "partitions": [str(tp) for tp in each.partitions],
    }


def _print_transaction(document: dict[str, object]) -> None:
    from millstream.cli.times import duration_text

    node, age, timeout_ms = document["coordinator"], document["age_seconds"], document["timeout_ms"]
    assert isinstance(node, dict) and isinstance(timeout_ms, int)
    open_for = f", open for {duration_text(round(age * 1000))}" if isinstance(age, float) else ""
    print(f"transactional id {document['transactional_id']}, {document['state']}{open_for}")
    print(f"producer {document['producer_id']}, epoch {document['producer_epoch']}")
    print(f"coordinator {node['id']} ({node['address']}), timeout {duration_text(timeout_ms)}")
    if document["started"]:
        print(f"started {document['started']}")
    partitions = document["partitions"]
    if isinstance(partitions, list) and partitions:
        print(f"partitions {' '.join(partitions)}")


async def _producers(cluster: Cluster, args: argparse.Namespace) -> int:
    from millstream.cli.output import show
    from millstream.cli.reading import partitions_of
    from millstream.client.transactions import describe_producers

    partitions = [tp for name, numbers in args.topics for tp in await partitions_of(cluster, [name], numbers)]
    producers = await describe_producers(cluster, dict.fromkeys(partitions))
    rows = [_producer_row(each) for each in producers if each.open_since_offset >= 0 or not args.open]
    show(rows, args.output, PRODUCER_COLUMNS)
    return 0


def _producer_row(each: Producer) -> dict[str, object]:
    from millstream.cli.times import moment_text

    def known(number: int) -> int | None:
        return number if number >= 0 else None

    return {
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "producer_id": each.id,
        "producer_epoch": each.epoch,
        "last_sequence": known(each.last_sequence),
        "last_write": moment_text(each.last_timestamp_ms) if each.last_timestamp_ms >= 0 else None,
        "coordinator_epoch": known(each.coordinator_epoch),
        "open_since_offset": known(each.open_since_offset),
    }
