"""The scenarios of committed offsets: one text file for each story."""

import asyncio
from pathlib import Path

import pytest

from tests.scenarios.groups.offsets import Story
from tests.scenarios.script import play

SCENARIOS = sorted(Path(__file__).parent.glob("offsets*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_offsets_do_as_the_scenario_says(path: Path) -> None:
    asyncio.run(play(path, Story().perform))
