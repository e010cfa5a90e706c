"""Run a cluster on this machine until it is told to stop (Ctrl-C or SIGTERM).

ZooKeeper is run from the jars that PySpark brings. These lines are printed:
`zookeeper HOST:PORT` for each, `broker N pid P HOST:PORT` for each, and
`ready HOST:PORT,HOST:PORT,...` once clients can come. Started again over the
same folder, the cluster goes on where it was. With three brokers, topics get
three replicas unless they ask for another number, and writes with acks=all
need two.
"""

from __future__ import annotations

import argparse
from collections.abc import Awaitable
from pathlib import Path
from typing import TYPE_CHECKING

from millstream.cli.options import add_setting_option, port

if TYPE_CHECKING:
    from millstream.cli.cluster.local import LocalCluster

DEFAULT_DATA = "millstream-cluster"
DEFAULT_PORT = 9092


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--brokers", type=_count, default=3, metavar="N", help="how many brokers (default: 3)")
    parser.add_argument(
        "--zookeeper", type=int, choices=(1, 3), default=1, help="how many ZooKeeper servers (default: 1)"
    )
    parser.add_argument(
        "--port",
        type=port,
        default=DEFAULT_PORT,
        metavar="BASE",
        help=f"brokers listen at BASE, BASE+1, ..., ZooKeeper at BASE+100, ...; 0 for any free ones "
        f"(default: {DEFAULT_PORT})",
    )
    parser.add_argument(
        "--data", type=Path, default=Path(DEFAULT_DATA), metavar="DIR", help=f"keep everything here ({DEFAULT_DATA})"
    )
    add_setting_option(
        parser, "a setting of every broker, such as log.segment.bytes=1048576; may be repeated", ["--set"]
    )


def run(args: argparse.Namespace) -> int:
    import asyncio

    from millstream.cli.cluster.local import LocalCluster, Plan

    plan = Plan(args.brokers, args.zookeeper, args.port, args.data, dict(args.settings))
    return asyncio.run(_run(LocalCluster(plan)))


async def _run(cluster: LocalCluster) -> int:
    import asyncio
    import signal

    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stopping.set)
    running = asyncio.create_task(_serve(cluster))
    told = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait([running, told], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            return running.result()
        return 0
    finally:
        running.cancel()
        told.cancel()
        await asyncio.wait([running, told])
        await cluster.stop()


async def _serve(cluster: LocalCluster) -> int:
    """Start everything, and tell of whoever ends; return when no broker is left."""
    import asyncio

    await cluster.start(lambda line: print(line, flush=True))
    zookeepers = [asyncio.create_task(_tell(asyncio.to_thread(server.ended))) for server in cluster.zookeepers]
    try:
        await asyncio.gather(*(_tell(broker.ended()) for broker in cluster.brokers))
    finally:
        for telling in zookeepers:
            telling.cancel()
    return 1


async def _tell(ended: Awaitable[str]) -> None:
    import sys

    print(await ended, file=sys.stderr)


def _count(text: str) -> int:
    if not text.isdigit() or not 1 <= int(text) <= 99:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of brokers: 1 to 99")
    return int(text)
