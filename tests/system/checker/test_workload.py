"""Delivery under faults: nothing wrong is found, and what is planted is found."""

import random
from pathlib import Path

import pytest

from tests.system.checker.ground import OneBroker
from tests.system.checker.workload import Workload


def on_one_broker(
    folder: Path, seed: int, *, protocol: str = "classic", commits_early: bool = False, bug: str = ""
) -> Workload:
    ground = OneBroker(folder, random.Random(seed), bug)
    return Workload(ground, folder, seed, protocol, commits_early)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_nothing_is_lost_doubled_or_shown_too_early_while_all_are_killed(tmp_path: Path, protocol: str) -> None:
    workload = on_one_broker(tmp_path, 1, protocol=protocol)
    assert workload.run(12) == []
    assert workload.faults.total() > 3


def test_a_broker_that_skips_the_sequence_check_is_caught(tmp_path: Path) -> None:
    found = {anomaly.name for anomaly in on_one_broker(tmp_path, 2, bug="skip-sequence-check").run(12)}
    assert "duplicate" in found


@pytest.mark.long
@pytest.mark.timeout(400)
def test_consumers_that_commit_before_they_are_done_are_caught(tmp_path: Path) -> None:
    """A kill falls where it falls; only one between a commit and its work shows anything."""
    runs = (on_one_broker(tmp_path / str(seed), seed, commits_early=True).run(12) for seed in range(3, 7))
    assert any(anomaly.name == "unseen" for found in runs for anomaly in found)


@pytest.mark.long
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_nothing_is_found_in_ten_minutes_of_faults(tmp_path: Path, protocol: str) -> None:
    assert on_one_broker(tmp_path, 10, protocol=protocol).run(600) == []
