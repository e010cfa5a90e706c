"""Delivery by a cluster of three under every fault there is."""

import random
from pathlib import Path

import pytest

from tests.system.checker.three_brokers import ThreeBrokers
from tests.system.checker.workload import Workload


def on_three_brokers(folder: Path, seed: int, protocol: str = "classic") -> Workload:
    return Workload(ThreeBrokers(folder, random.Random(seed)), folder, seed, protocol)


@pytest.mark.timeout(400)
def test_nothing_is_lost_doubled_or_shown_too_early_through_each_fault_of_a_cluster(tmp_path: Path) -> None:
    workload = on_three_brokers(tmp_path, 1)
    assert workload.run_through() == []
    assert len(workload.faults) == len(workload.ground.faults()) + 1


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_nothing_is_found_in_ten_minutes_of_a_clusters_faults(tmp_path: Path, protocol: str) -> None:
    assert on_three_brokers(tmp_path, 20, protocol).run(600) == []
