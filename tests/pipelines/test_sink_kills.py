"""Exactly once, whatever is killed: the driver, a Python worker, the broker."""

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.pipelines.killing import Copying
from tests.system.broker_process import BrokerProcess

KILLS = 30


@pytest.mark.timeout(600)
def test_a_stream_comes_out_once_though_broker_worker_and_driver_are_killed(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "broker") as broker:
        copying = Copying(broker, tmp_path, records=6_000, batch_records=200, delivery="exactly-once")
        try:
            for harm in (copying.kill_broker, copying.kill_python, copying.kill_driver):
                copying.wait_for_batches(3)
                harm()
            copying.finish()
            assert copying.values() == copying.expected
            assert copying.starts >= 2
        finally:
            copying.close()


def _kill_at_random(copying: Copying, kills: int, chance: random.Random) -> int:
    """So many kills at moments that nobody chose; how many there were before the stream was through."""
    harms: list[Callable[[], object]] = [copying.kill_broker, copying.kill_python, copying.kill_python]
    done = 0
    while done < kills and not copying.is_over:
        copying.wait_for_batches(chance.choice([1, 1, 2]))
        time.sleep(chance.random() * 0.4)  # Anywhere within a batch.
        harm = copying.kill_driver if done % 4 == 3 else chance.choice(harms)
        if harm() is not False:
            done += 1
    return done


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_thirty_kills_at_random_moments(tmp_path: Path, delivery: str) -> None:
    seed = random.randrange(2**32)
    kills = KILLS if delivery == "exactly-once" else KILLS // 2
    with BrokerProcess(tmp_path / "broker") as broker:
        copying = Copying(broker, tmp_path, records=40_000, batch_records=100, delivery=delivery)
        try:
            assert _kill_at_random(copying, kills, random.Random(seed)) == kills
            copying.batch_records = 5_000  # Enough harm was done; the rest may go quickly.
            copying.kill_driver()
            copying.finish()
            found = copying.values()
            assert set(found) == set(copying.expected)
            if delivery == "exactly-once":
                assert found == copying.expected, f"seed {seed}"
            else:
                assert len(found) > len(copying.expected), f"seed {seed}: nothing was doubled"
        finally:
            copying.close()
