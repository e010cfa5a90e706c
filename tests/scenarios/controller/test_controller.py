"""The controller's scenarios: one text file for each story."""

import asyncio
from pathlib import Path

import pytest

from tests.scenarios.controller.cluster import Cluster
from tests.scenarios.script import play
from tests.simulation.loop import SimLoop

SCENARIOS = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_controller_does_as_the_scenario_says(path: Path) -> None:
    async def run() -> None:
        cluster = Cluster()
        try:
            await play(path, cluster.perform)
        finally:
            await cluster.close()

    with asyncio.Runner(loop_factory=SimLoop) as runner:
        runner.run(run())
