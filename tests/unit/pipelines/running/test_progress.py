"""The line that says how far a pipeline is."""

from millstream.metrics.prometheus import exposition
from millstream.pipelines.running.metrics import PipelineMetrics
from millstream.pipelines.running.progress import Progress
from millstream.pipelines.running.reports import Batch


def batch(query: str = "totals", rows_in: int = 3_000, rows_out: int | None = 100, lag: int | None = 1_234) -> Batch:
    return Batch(query, 0, rows_in, rows_out, lag, 56, 0, 0)


def test_rates_are_over_the_time_since_the_last_line() -> None:
    progress = Progress()
    progress.add(batch())
    progress.add(batch(lag=0))
    assert progress.line(2.0) == "totals  3,000 rows/s in  100 out  lag 0  batch 56 ms"
    assert progress.line(2.0) == "totals  0 rows/s in  0 out  lag 0  idle"
    progress.add(batch())
    assert progress.line(1.0) == "totals  3,000 rows/s in  100 out  lag 1,234  batch 56 ms"


def test_a_batch_that_does_not_know_the_lag_leaves_it_as_it_was() -> None:
    progress = Progress()
    progress.add(batch())
    progress.add(batch(lag=None))
    assert "  lag 1,234  " in progress.line(1.0)


def test_a_first_batch_that_does_not_know_the_lag_leaves_it_unknown() -> None:
    progress, metrics = Progress(), PipelineMetrics("shop")
    progress.add(batch(lag=None))
    metrics.add(batch(lag=None), progress.queries["totals"])
    assert "  lag unknown  " in progress.line(1.0)
    assert "lag_records" not in exposition(metrics.metrics)


def test_a_pipeline_that_is_down_says_so_in_place_of_its_figures() -> None:
    progress = Progress()
    progress.add(batch("a", lag=0))
    progress.fell("A", ["a"], lambda: "down, next try in 7 s")
    assert progress.lines(1.0) == ["A  down, next try in 7 s"]
    assert progress.line(1.0) == "A  down, next try in 7 s"
    assert progress.summary(1.0).endswith("lag unknown")
    progress.started("A")
    assert progress.lines(1.0) == ["a  0 rows/s in  0 out  lag unknown  idle"]
    progress.add(batch("a", lag=5))
    assert progress.line(1.0) == "a  3,000 rows/s in  100 out  lag 5  batch 56 ms"


def test_pipelines_that_are_down_stand_behind_those_that_run() -> None:
    progress = Progress()
    progress.fell("C", [], lambda: "down")
    assert progress.lines(1.0) == ["C  down"]
    for query in ("a", "b"):
        progress.add(batch(query, rows_in=1))
    progress.fell("A", ["a"], lambda: "down, next try in 7 s")
    assert [line.split()[0] for line in progress.lines(1.0)] == ["b", "C", "A"]
    together = "2 queries  2 rows/s in  200 out  lag unknown  batch 56 ms | C  down | A  down, next try in 7 s"
    assert progress.line(1.0) == together
    progress.fell("B", ["b"], lambda: "down")
    assert progress.line(1.0) == "C  down | A  down, next try in 7 s | B  down"


def test_state_is_shown_where_there_is_some() -> None:
    progress = Progress()
    progress.add(Batch("totals", 0, 0, 0, 0, 5, state_rows=1_000, state_bytes=2_500_000))
    assert progress.line(1.0).endswith("  state 1,000 rows, 2.5 MB")


def test_several_queries_are_one_line_together_and_a_line_each_apart() -> None:
    progress = Progress()
    progress.add(batch("a", rows_in=1))
    progress.add(batch("b", rows_in=2))
    assert progress.line(1.0) == "2 queries  3 rows/s in  200 out  lag 2,468  batch 56 ms"
    assert [line.split()[0] for line in progress.lines(1.0)] == ["a", "b"]


def test_the_summary_has_everything_since_the_start() -> None:
    progress = Progress()
    progress.add(batch())
    progress.add(batch(rows_out=None, lag=0))
    assert progress.summary(61.4) == "6,000 rows in, 100 out, 2 batches in 61 s, lag 0"


def test_the_same_figures_are_metrics() -> None:
    progress, metrics = Progress(), PipelineMetrics("shop")
    for one in (batch(), batch(lag=7)):
        progress.add(one)
        metrics.add(one, progress.queries["totals"])
    metrics.restarts.value += 1
    text = exposition(metrics.metrics)
    for line in (
        'millstream_pipeline_rows_in_total{pipeline="shop",query="totals"} 6000',
        'millstream_pipeline_rows_out_total{pipeline="shop",query="totals"} 200',
        'millstream_pipeline_lag_records{pipeline="shop",query="totals"} 7',
        'millstream_pipeline_batch_ms_count{pipeline="shop",query="totals"} 2',
        'millstream_pipeline_restarts_total{pipeline="shop"} 1',
        'millstream_pipeline_up{pipeline="shop"} 0',
    ):
        assert line in text.splitlines()
