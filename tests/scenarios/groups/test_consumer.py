"""The consumer protocol's scenarios: one text file for each story; together they take every way between states."""

import asyncio
from pathlib import Path

import pytest

from millstream.coordination.groups.consumer.reconciliation import TRANSITIONS
from tests.scenarios.groups.consumer import Edge, Story, transitions
from tests.scenarios.script import play

SCENARIOS = sorted(Path(__file__).parent.glob("consumer*.txt"))


def played(path: Path) -> list[Edge]:
    with transitions() as edges:
        asyncio.run(play(path, Story(edges).perform))
    return edges


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_consumer_group_does_as_the_scenario_says(path: Path) -> None:
    played(path)


def test_the_scenarios_take_every_way_between_states() -> None:
    taken = {edge for path in SCENARIOS for edge in played(path)}
    assert taken == {(before, after) for before, allowed in TRANSITIONS.items() for after in allowed}
