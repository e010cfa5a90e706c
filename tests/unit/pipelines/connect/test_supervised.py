"""A connector's process, started and ended as its life says: real processes of a line or two."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from millstream.model.clock import Clock, SystemClock
from millstream.pipelines.connect.job import Job
from millstream.pipelines.connect.reports import Batch
from millstream.pipelines.connect.runtime.lifecycle import Phase
from millstream.pipelines.connect.runtime.states import State, Target
from millstream.pipelines.connect.runtime.supervised import Supervised
from millstream.pipelines.running.restarts import Restarts

BEGINNING = """
import os, sys, time
from millstream.pipelines.connect.reports import *
tell = lambda report: os.write(int(sys.argv[-1]), encode(report))
job = sys.stdin.readline()
"""
WORKS = "tell(Started(2)); tell(Batch(0, 1, 1)); sys.stdin.read(); tell(Batch(1, 1, 1))"
TIMEOUT_S = 30.0


class Told:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.batches: list[int] = []
        self.lines: list[str] = []
        self.falls = 0
        self.heard = asyncio.Event()

    def changed(self, connector: Supervised) -> None:
        self.heard.set()

    def worked(self, connector: Supervised, batch: Batch) -> None:
        self.batches.append(batch.number)
        self.heard.set()

    def fell(self, connector: Supervised) -> None:
        self.falls += 1

    def said(self, connector: Supervised, line: str) -> None:
        self.lines.append(line)
        self.heard.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while not holds():
                self.heard.clear()
                await self.heard.wait()


def supervised(
    script: str,
    *,
    name: str = "a",
    first_s: float = 0.01,
    faults: list[Exception] | None = None,
    clock: Clock | None = None,
) -> tuple[Supervised, Told]:
    """A connector whose process runs this; the first starts meet these faults instead."""
    told = Told()

    async def prepare() -> Job:
        if faults:
            raise faults.pop()
        return Job(bootstrap="b:1", config={"name": name}, data=str(Path()))

    command = (sys.executable, "-c", BEGINNING + script)
    restarts = Restarts(first_s=first_s)
    found = Supervised(
        name,
        prepare,
        told,
        command=command,
        env={},
        restarts=restarts,
        clock=clock or SystemClock(),
        chance=lambda: 0.5,
    )
    return found, told


def test_it_runs_ends_behind_its_batch_and_runs_again() -> None:
    async def scenario() -> None:
        connector, told = supervised(WORKS)
        connector.want(Target.STARTED)
        await told.until(lambda: told.batches == [0])
        assert connector.tasks == 2 and connector.life.view.tasks is State.RUNNING
        connector.want(Target.PAUSED)
        await connector.settled()
        assert told.batches == [0, 1] and connector.life.view.connector is State.PAUSED
        connector.want(Target.STARTED)
        await told.until(lambda: told.batches == [0, 1, 0])
        connector.anew()
        await told.until(lambda: told.batches == [0, 1, 0, 1, 0])
        await connector.close()
        assert (connector.starts, connector.falls) == (3, 0)
        assert told.falls == 0, "every process ended in good order"

    asyncio.run(scenario())


def test_its_process_is_known_by_its_name() -> None:
    async def scenario() -> None:
        connector, told = supervised("sys.stderr.write(sys.argv[1] + '\\n'); sys.stderr.flush();" + WORKS, name="a/b")
        connector.want(Target.STARTED)
        await told.until(lambda: told.lines == ["a%2Fb"])
        await connector.close()

    asyncio.run(scenario())


def test_it_is_started_again_until_what_fails_is_final() -> None:
    async def scenario() -> None:
        final = "tell(Failed('no table', 'trace', True)); sys.exit(1)"
        connector, told = supervised(final, faults=[OSError("no disk"), OSError("no broker")])
        connector.want(Target.STARTED)
        await told.until(lambda: connector.life.phase is Phase.FAILED)
        assert (connector.starts, connector.falls) == (3, 2)
        assert told.lines == [
            "OSError: no broker; it is started again in 0.0 s",
            "OSError: no disk; it is started again in 0.0 s",
            "no table",
        ]
        assert connector.life.view.connector_trace == "trace"
        assert told.falls == 1, "of the processes, one ended otherwise"
        await connector.close()

    asyncio.run(scenario())


def test_one_that_had_nothing_to_do_for_long_was_well_all_the_same() -> None:
    class Hand:
        now_s = 100.0

        def now_ms(self) -> int:
            return int(self.now_s * 1000)

        def monotonic_s(self) -> float:
            return self.now_s

    async def scenario() -> None:
        hand = Hand()
        connector, told = supervised("tell(Started(1)); sys.stdin.read()", first_s=0.4, clock=hand)
        connector.want(Target.STARTED)
        for falls in (1, 2, 3):
            await told.until(lambda: connector.life.phase is Phase.RUNNING)
            hand.now_s += 3600
            assert connector.pid is not None
            os.kill(connector.pid, signal.SIGKILL)
            await told.until(lambda falls=falls: connector.falls == falls)  # type: ignore[misc]
        await connector.close()
        assert [line.rpartition(" in ")[2] for line in told.lines] == ["0.3 s"] * 3, "each is as the first"

    asyncio.run(scenario())


def test_a_wait_ends_when_somebody_wants_it_to() -> None:
    async def scenario() -> None:
        connector, told = supervised("sys.stderr.write('odd\\n'); sys.exit(3)", first_s=600.0)
        connector.want(Target.STARTED)
        await told.until(lambda: connector.life.phase is Phase.WAITING)
        assert connector.life.fall is not None and connector.life.fall.trace == "odd"
        connector.anew()
        await told.until(lambda: connector.falls == 2)
        connector.want(Target.STOPPED)
        await connector.settled()
        assert connector.life.phase is Phase.IDLE

    asyncio.run(scenario())


def test_what_is_called_off_before_it_began_leaves_no_process() -> None:
    async def scenario() -> None:
        connector, told = supervised("time.sleep(600)")
        connector.want(Target.STARTED)
        connector.want(Target.STOPPED)
        assert connector.life.phase is Phase.ENDING
        await asyncio.wait_for(connector.settled(), TIMEOUT_S)
        assert connector.pid is None
        assert told.falls == 1, "it was killed, and may have left something"

    asyncio.run(scenario())
