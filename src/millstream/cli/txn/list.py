"""List transactional ids: state, producer, and how long a transaction is open.

millstream txn list --older-than 15m
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from millstream.cli.options import add_output_option, duration_ms, some_of

if TYPE_CHECKING:
    from millstream.client.cluster import Cluster
    from millstream.client.transactions import Transaction

COLUMNS = ("transactional_id", "producer_id", "state", "age", "coordinator")
STATES = (
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "PrepareEpochFence",
    "CompleteCommit",
    "CompleteAbort",
    "Empty",
    "Dead",
)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pattern", nargs="?", metavar="PATTERN", help="only ids that match, as in 'mover-*'")
    parser.add_argument(
        "--state",
        dest="states",
        type=some_of(STATES),
        metavar="STATE[,…]",
        help=f"only in one of these: {', '.join(STATES)}",
    )
    parser.add_argument(
        "--older-than", type=duration_ms, metavar="DURATION", help="only transactions open for longer: 90s, 15m, 1h"
    )
    parser.add_argument("-q", "--names", action="store_true", help="print ids alone, one to a line")
    add_output_option(parser)


async def run(cluster: Cluster, args: argparse.Namespace) -> int:
    import time
    from fnmatch import fnmatchcase

    from millstream.cli.output import show
    from millstream.cli.waiting import coordinators_of
    from millstream.client.transactions import list_transactions

    now_ms = time.time_ns() // 1_000_000
    listed = [
        each
        for each in await list_transactions(coordinators_of(cluster))
        if fnmatchcase(each.id, args.pattern or "*")
        and (args.states is None or each.state in args.states)
        and (args.older_than is None or (each.start_ms is not None and now_ms - each.start_ms > args.older_than))
    ]
    if args.names:
        for each in listed:
            print(each.id)
        return 0
    show([_row(each, now_ms) for each in listed], args.output, COLUMNS)
    return 0


def _row(each: Transaction, now_ms: int) -> dict[str, object]:
    from millstream.cli.times import duration_text

    age_ms = None if each.start_ms is None else max(0, now_ms - each.start_ms)
    return {
        "transactional_id": each.id,
        "producer_id": each.producer_id,
        "state": each.state,
        "age": None if age_ms is None else duration_text(age_ms),
        "age_seconds": None if age_ms is None else round(age_ms / 1000, 1),
        "coordinator": each.coordinator.id,
    }
