"""What a process of the sink keeps; nothing here needs a broker."""

from collections.abc import Iterator

import pytest

from millstream.model.clock import SystemClock
from millstream.pipelines.spark.sink.options import sink_options
from millstream.pipelines.spark.sink.process import SinkProcess


@pytest.fixture
def process() -> Iterator[SinkProcess]:
    found = SinkProcess(sink_options({"kafka.bootstrap.servers": "nowhere:9092"}), "nonce", SystemClock())
    yield found
    found.close()


def _taken(process: SinkProcess, query: str) -> str:
    return process.run(process._free_id(query, 0))


def test_no_id_is_made_twice_though_a_query_is_forgotten(process: SinkProcess) -> None:
    names = [_taken(process, "q"), _taken(process, "q")]
    process.dismiss("q")
    names.append(_taken(process, "q"))
    assert names == [f"millstream-sink/q/nonce/{number}" for number in (1, 2, 3)]


def test_a_worker_that_writes_for_ever_new_jobs_does_not_keep_their_ids(process: SinkProcess) -> None:
    for number in range(1_000):
        _taken(process, f"job-{number}")
        _taken(process, "stream")
    assert len(process._ids) <= 64
    assert "stream" in process._ids
    process.dismiss("stream")
    assert "stream" not in process._ids
