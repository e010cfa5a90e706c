"""Flows beside each other: real processes, which speak as a flow does and need no Spark for it."""

import asyncio
import sys
from pathlib import Path

import pytest

from millstream.model.clock import SystemClock
from millstream.pipelines.mirror.supervising import Flows
from millstream.pipelines.running.failures import PipelineError
from millstream.pipelines.running.job import Job
from millstream.pipelines.running.restarts import Restarts
from tests.unit.pipelines.running.test_supervisor import BEGINNING, TIMEOUT_S, UNTIL_TOLD, WORKS, Told

#: One flow cannot go on; the other works until it is told to stop.
LIVES = f"""{BEGINNING}
if '"A->B"' in sys.argv[1]:
    tell(Failed("a record is too large", True))
    sys.exit(1)
{WORKS}{UNTIL_TOLD}"""


def flows_of(folder: Path, *names: str) -> tuple[Flows, Told]:
    jobs = [Job(file="m.properties", name=name, checkpoint=str(folder / name), bootstrap="b:1") for name in names]
    told = Told()
    command = (sys.executable, "-c", LIVES)
    return Flows(jobs, told, Restarts, SystemClock(), lambda: 0.5, command=command), told


def test_a_flow_that_cannot_go_on_says_so_and_the_others_go_on_until_they_are_told_to_stop(tmp_path: Path) -> None:
    async def scenario() -> list[str]:
        flows, told = flows_of(tmp_path, "A->B", "B->A")
        running = asyncio.create_task(flows.run())
        await told.until("A->B: a record is too large; it stays down, and the other flows go on")
        await told.until("B->A: running q")
        await told.until("A->B  down")
        assert not running.done()
        flows.stop()
        with pytest.raises(PipelineError, match="a record is too large"):
            await asyncio.wait_for(running, TIMEOUT_S)
        return told.errors

    assert len(asyncio.run(scenario())) == 1


def test_the_last_flow_s_end_is_told_by_whoever_runs_it(tmp_path: Path) -> None:
    async def scenario() -> list[str]:
        flows, told = flows_of(tmp_path, "A->B")
        with pytest.raises(PipelineError, match="a record is too large"):
            await asyncio.wait_for(flows.run(), TIMEOUT_S)
        return told.errors

    assert asyncio.run(scenario()) == []
