"""The scenarios of transactions: one text file for each story."""

import asyncio
from pathlib import Path

import pytest

from millstream.coordination.transactions.states import TRANSITIONS
from tests.scenarios.script import play
from tests.scenarios.transactions.clients import Clients, transitions

SCENARIOS = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_the_coordinator_does_as_the_scenario_says(path: Path) -> None:
    asyncio.run(play(path, Clients().perform))


def test_the_scenarios_together_take_every_step_of_the_table() -> None:
    with transitions() as seen:
        for path in SCENARIOS:
            asyncio.run(play(path, Clients().perform))
    assert seen == {(before, after) for before, follow in TRANSITIONS.items() for after in follow}
