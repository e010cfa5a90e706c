"""Exactly once, whatever is killed: the driver, an executor, a Python worker, the broker."""

import random
import time
from pathlib import Path

import pytest

from tests.pipelines.killing import Copying
from tests.pipelines.standalone import StandaloneCluster
from tests.system.broker_process import BrokerProcess


@pytest.mark.timeout(600)
def test_a_stream_comes_out_once_though_broker_worker_and_driver_are_killed(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "broker") as broker:
        copying = Copying(broker, tmp_path, records=3_000, batch_records=200, delivery="exactly-once")
        try:
            for harm in (copying.kill_broker, copying.kill_python, copying.kill_driver):
                copying.wait_for_batches(3)
                harm()
            copying.finish()
            assert copying.values() == copying.expected
            assert copying.starts >= 2
        finally:
            copying.close()


def _kill_at_random(copying: Copying, kills: int, chance: random.Random) -> None:
    """So many kills at moments that nobody chose, of every kind in turn."""
    kinds = [copying.kill_broker, copying.kill_python, copying.kill_executor, copying.kill_python]
    harms = [copying.kill_driver if number % 6 == 5 else kinds[number % 4] for number in range(kills)]
    chance.shuffle(harms)
    while harms:
        copying.wait_for_batches(chance.choice([1, 1, 2]))
        assert not copying.is_over, f"the stream was through with {len(harms)} kills to go"
        time.sleep(chance.random() * 0.4)  # Anywhere within a batch.
        if harms[-1]() is not False:  # Whoever was to be killed was not there just now.
            harms.pop()


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(("delivery", "kills"), [("exactly-once", 30), ("at-least-once", 15)])
def test_kills_at_random_moments_of_driver_executors_python_and_broker(
    tmp_path: Path, delivery: str, kills: int
) -> None:
    seed = random.randrange(2**32)
    with BrokerProcess(tmp_path / "broker") as broker, StandaloneCluster(tmp_path / "spark") as cluster:
        copying = Copying(broker, tmp_path, records=40_000, batch_records=100, delivery=delivery, cluster=cluster)
        try:
            _kill_at_random(copying, kills, random.Random(seed))
            copying.batch_records = 5_000  # Enough harm was done; the rest may go quickly.
            copying.kill_driver()
            copying.finish()
            found = copying.values()
            assert set(found) == set(copying.expected), f"seed {seed}"
            if delivery == "exactly-once":
                assert found == copying.expected, f"seed {seed}"
            else:
                assert len(found) > len(copying.expected), f"seed {seed}: nothing was doubled"
        finally:
            copying.close()
