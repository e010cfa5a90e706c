"""Percentiles, rates and the line that tells how far it has come."""

import pytest

from millstream.cli.perf.figures import Latencies, rate_text, spread_ms, spread_text, throughput
from millstream.cli.perf.load import batch_of
from millstream.cli.progress import Progress
from millstream.model.records import decode_batch
from tests.batches import checked_batches


def test_percentiles_are_times_that_were_measured() -> None:
    spread = spread_ms([number * 1_000_000 for number in range(1000, 0, -1)])
    assert spread == {"p50": 500.0, "p95": 950.0, "p99": 990.0, "p99.9": 999.0, "max": 1000.0, "mean": 500.5}
    assert set(spread_ms([7_000_000]).values()) == {7.0}
    assert spread_ms([]) == {}
    assert spread_text({}) == "no answers"


def test_recent_latencies_are_those_since_the_last_look() -> None:
    latencies = Latencies()
    latencies.add(1_000_000)
    assert latencies.recent_ms()["max"] == 1.0
    assert latencies.recent_ms() == {}
    latencies.add(2_000_000)
    assert latencies.recent_ms()["max"] == 2.0
    assert latencies.spread_ms()["max"] == 2.0


def test_rates_are_per_second() -> None:
    assert rate_text(3000, 6_000_000, 2.0) == "1,500 records/s, 3.0 MB/s"
    assert throughput(3000, 6_000_000, 2.0)["mb_per_s"] == 3.0
    assert throughput(0, 0, 0.0)["records_per_s"] == 0.0


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("value_bytes", [1, 13, 100, 5000])
def test_a_measured_batch_is_one_that_a_broker_takes(codec: str, value_bytes: int) -> None:
    batch = batch_of(20, value_bytes, codec)
    [(at, header)] = checked_batches(batch)
    assert header.record_count == 20
    assert {len(record.value or b"") for record in decode_batch(batch, at)} == {value_bytes}


class Watch:
    """A clock that shows what it is set to."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_progress_is_told_once_a_second(capsys: pytest.CaptureFixture[str]) -> None:
    watch = Watch()
    progress = Progress(always=True, monotonic_s=watch)
    for watch.now_s in (100.5, 100.9, 101.5, 101.6, 103.0):
        progress.tell(lambda passed_s: f"after {passed_s:.1f}")
    progress.done()
    assert capsys.readouterr().err == "after 1.5\nafter 1.5\n"
    assert progress.elapsed_s() == 3.0


@pytest.mark.parametrize("options", [{}, {"always": True, "quiet": True}])
def test_progress_is_silent_where_nobody_watches(options: dict[str, bool], capsys: pytest.CaptureFixture[str]) -> None:
    watch = Watch()
    progress = Progress(always=options.get("always", False), quiet=options.get("quiet", False), monotonic_s=watch)
    watch.now_s += 5
    progress.tell(lambda passed_s: "never")
    progress.done()
    assert capsys.readouterr().err == ""
