"""Replication's scenarios: one text file for each story."""

import asyncio
from pathlib import Path

import pytest

from tests.scenarios.replication.replicas import Replicas
from tests.scenarios.script import play

SCENARIOS = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_replicas_do_as_the_scenario_says(path: Path) -> None:
    asyncio.run(play(path, Replicas().perform))
