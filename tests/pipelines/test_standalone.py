"""On Spark's standalone cluster of two workers, of which one is killed in the middle of a stream."""

from pathlib import Path

import pytest

from tests.pipelines.killing import Copying
from tests.pipelines.standalone import StandaloneCluster
from tests.system.broker_process import BrokerProcess


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_stream_comes_out_once_though_one_of_two_workers_is_killed(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "broker") as broker, StandaloneCluster(tmp_path / "spark") as cluster:
        copying = Copying(broker, tmp_path, records=12_000, batch_records=200, cluster=cluster)
        try:
            copying.wait_until(lambda: cluster.working() == [0, 1], "work on both workers")
            copying.wait_for_batches(3)
            cluster.kill_worker(0)
            copying.wait_until(lambda: cluster.working() == [1], "the worker's end")
            assert not copying.is_over
            copying.finish()
            assert copying.values() == copying.expected
            assert copying.starts == 1
        finally:
            copying.close()
