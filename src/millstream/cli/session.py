"""Running a command that talks to a cluster: its loop, its connections, and a clean end on Ctrl-C."""

import argparse
import asyncio
from collections.abc import Awaitable, Callable

from millstream.cli.failure import CommandFailed
from millstream.cli.options import bootstrap_of
from millstream.client.cluster import Cluster
from millstream.client.wire import parse_addresses

Work = Callable[[Cluster, argparse.Namespace], Awaitable[int]]


def run_online(work: Work, args: argparse.Namespace) -> int:
    """Connect to the cluster that the options name, do the work, and return its exit code."""
    try:
        addresses = parse_addresses(bootstrap_of(args))
    except ValueError as error:
        raise CommandFailed(str(error), exit_code=2) from None

    async def session() -> int:
        async with Cluster(addresses, timeout_s=args.timeout_s) as cluster:
            return await work(cluster, args)

    with asyncio.Runner(loop_factory=_loop_factory(args)) as runner:
        return runner.run(session())


def _loop_factory(args: argparse.Namespace) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The faster loop for commands that measure; its import costs more than a short command takes."""
    if not getattr(args, "fast_loop", False):
        return None
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
