"""Who runs over a folder, and what is said of it."""

import os
import re
from pathlib import Path

import pytest

from millstream.cli.cluster.held import hold, holders, named, running_brokers
from millstream.cli.cluster.local import LocalCluster, Plan
from millstream.cli.failure import CommandFailed


def test_a_folder_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    lock = hold(tmp_path / "data")
    refusal = rf"^{re.escape(str(tmp_path))}/data is in use by process {os.getpid()}: stop the cluster .* --data$"
    with pytest.raises(CommandFailed, match=refusal):
        hold(tmp_path / "data")
    lock.close()
    assert holders(tmp_path / "data") == []
    hold(tmp_path / "data").close()


def test_a_folder_in_use_is_said_rather_than_a_port_that_its_cluster_has(tmp_path: Path) -> None:
    lock = hold(tmp_path)
    with pytest.raises(CommandFailed, match="is in use"):
        LocalCluster(Plan(1, 1, 65_535, tmp_path))  # Its ZooKeeper's port cannot be.
    lock.close()
    with pytest.raises(CommandFailed, match="cannot be had"):
        LocalCluster(Plan(1, 1, 65_535, tmp_path))


def test_brokers_that_run_are_told_from_those_that_did(tmp_path: Path) -> None:
    running, stopped = hold(tmp_path / "broker-1"), hold(tmp_path / "broker-2")
    stopped.close()
    found = running_brokers(tmp_path, [1, 2, 3])
    assert found == {1: [os.getpid()]}
    assert named(found) == f"broker 1 (pid {os.getpid()})"
    assert named({1: [], 3: [7]}) == "broker 1, broker 3 (pid 7)"
    assert not (tmp_path / "broker-3").exists()
    running.close()
