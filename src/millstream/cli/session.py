"""Running a command that talks to a cluster: its loop, its connections, and a clean end when it is told to end."""

import argparse
import asyncio
import os
import signal
import stat
import sys
from collections.abc import Awaitable, Callable

from millstream.cli.failure import CommandFailed, refusal
from millstream.cli.options import bootstrap_of
from millstream.client.cluster import Cluster
from millstream.client.wire import parse_addresses
from millstream.model.errors import ProtocolError

#: What ends a command as Ctrl-C does; a group is left and what was printed is committed.
ENDINGS = (signal.SIGTERM, signal.SIGHUP)

Work = Callable[[Cluster, argparse.Namespace], Awaitable[int]]


def run_online(work: Work, args: argparse.Namespace) -> int:
    """Connect to the cluster that the options name, do the work, and return its exit code."""
    try:
        addresses = parse_addresses(bootstrap_of(args))
    except ValueError as error:
        raise CommandFailed(str(error), exit_code=2) from None

    async def session() -> int:
        async with Cluster(addresses, timeout_s=args.timeout_s) as cluster:
            return await _until_told(_while_read(work(cluster, args)))

    try:
        with asyncio.Runner(loop_factory=_loop_factory(args)) as runner:
            return runner.run(session())
    except ProtocolError as error:
        about = {noun: named for noun, named in vars(args).items() if isinstance(named, str)}
        raise CommandFailed(refusal(error.code.name, error.detail, about)) from None


async def _until_told(work: Awaitable[int]) -> int:
    """Do the work, or end it in good order on a signal; the exit code is then what a shell would say of it."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    told: list[signal.Signals] = []

    def end(number: signal.Signals) -> None:
        told.append(number)
        loop.remove_signal_handler(number)  # Told again, it ends at once.
        task.cancel()

    heard = [number for number in ENDINGS if signal.getsignal(number) is signal.SIG_DFL]  # nohup ignores one.
    for number in heard:
        loop.add_signal_handler(number, end, number)
    try:
        return await work
    except asyncio.CancelledError:
        if not told:
            raise
        return 128 + told[0]
    finally:
        for number in heard:
            loop.remove_signal_handler(number)


async def _while_read(work: Awaitable[int]) -> int:
    """Do the work as long as someone reads our output; BrokenPipeError, as a write would raise, once nobody does.

    A command that waits for records has nothing to write, and would not notice for hours that `| head` has left.
    """
    output = _piped_output()
    task = asyncio.current_task()
    if output is None or task is None:
        return await work
    loop = asyncio.get_running_loop()
    has_left = False

    def left() -> None:
        nonlocal has_left
        has_left = True
        loop.remove_reader(output)
        task.cancel()

    loop.add_reader(output, left)
    try:
        return await work
    except asyncio.CancelledError:
        if has_left:
            raise BrokenPipeError from None
        raise
    finally:
        loop.remove_reader(output)


def _piped_output() -> int | None:
    """The descriptor of standard output if it is a pipe; the loop wakes on it when its other end is closed."""
    try:
        output = sys.stdout.fileno()
        return output if stat.S_ISFIFO(os.fstat(output).st_mode) else None
    except (OSError, ValueError):  # It is closed, or not a file at all.
        return None


def _loop_factory(args: argparse.Namespace) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The faster loop for commands that measure; its import costs more than a short command takes."""
    if not getattr(args, "fast_loop", False):
        return None
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
