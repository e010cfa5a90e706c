"""Delivery under faults: nothing wrong is found, and what is planted is found."""

from pathlib import Path

import pytest

from tests.system.checker.workload import Workload


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_nothing_is_lost_doubled_or_shown_too_early_while_all_are_killed(tmp_path: Path, protocol: str) -> None:
    workload = Workload(tmp_path, seed=1, protocol=protocol)
    assert workload.run(12) == []
    assert workload.faults > 3


def test_a_broker_that_skips_the_sequence_check_is_caught(tmp_path: Path) -> None:
    found = {anomaly.name for anomaly in Workload(tmp_path, seed=2, broker_bug="skip-sequence-check").run(12)}
    assert "duplicate" in found


def test_consumers_that_commit_before_they_are_done_are_caught(tmp_path: Path) -> None:
    found = {anomaly.name for anomaly in Workload(tmp_path, seed=3, commits_early=True).run(12)}
    assert "unseen" in found


@pytest.mark.long
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_nothing_is_found_in_ten_minutes_of_faults(tmp_path: Path, protocol: str) -> None:
    workload = Workload(tmp_path, seed=10, protocol=protocol)
    assert workload.run(600) == []
