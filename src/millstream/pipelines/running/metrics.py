"""The metrics of a pipeline."""

from collections.abc import Callable, Iterable

from millstream.metrics.metric import Kind, Metric, Metrics
from millstream.pipelines.running.progress import Totals
from millstream.pipelines.running.reports import Batch

_QUERY = ("pipeline", "query")

ROWS_IN = Metric("millstream_pipeline_rows_in_total", Kind.COUNTER, "Rows read from sources.", _QUERY)
ROWS_OUT = Metric("millstream_pipeline_rows_out_total", Kind.COUNTER, "Rows written, where the sink counts.", _QUERY)
BATCHES = Metric("millstream_pipeline_batches_total", Kind.COUNTER, "Micro-batches ended.", _QUERY)
BATCH_MS = Metric("millstream_pipeline_batch_ms", Kind.SUMMARY, "Milliseconds that a micro-batch took.", _QUERY)
LAG = Metric("millstream_pipeline_lag_records", Kind.GAUGE, "Records that are there and were not read yet.", _QUERY)
STATE_ROWS = Metric("millstream_pipeline_state_rows", Kind.GAUGE, "Rows of state held.", _QUERY)
STATE_BYTES = Metric("millstream_pipeline_state_bytes", Kind.GAUGE, "Memory that state takes.", _QUERY)
RESTARTS = Metric("millstream_pipeline_restarts_total", Kind.COUNTER, "How often it was started again.", ("pipeline",))
UP = Metric("millstream_pipeline_up", Kind.GAUGE, "1 while the queries run, else 0.", ("pipeline",))

#: Everything a pipeline counts.
METRICS: tuple[Metric, ...] = tuple(found for found in list(globals().values()) if isinstance(found, Metric))

#: Which total each counter and gauge shows; what is not known is not shown.
_SHOWN: dict[Metric, Callable[[Totals], int | None]] = {
    ROWS_IN: lambda totals: totals.rows_in,
    ROWS_OUT: lambda totals: totals.rows_out,
    BATCHES: lambda totals: totals.batches,
    LAG: lambda totals: totals.lag,
    STATE_ROWS: lambda totals: totals.state_rows,
    STATE_BYTES: lambda totals: totals.state_bytes,
}


class PipelineMetrics:
    """The numbers of one pipeline."""

    def __init__(self, pipeline: str, metrics: Metrics | None = None) -> None:
        """``metrics`` are given where several pipelines have theirs on one page."""
        self.metrics = metrics or Metrics(METRICS)
        self._pipeline = pipeline
        self.up = self.metrics.cell(UP, pipeline)
        self.restarts = self.metrics.cell(RESTARTS, pipeline)

    def add(self, batch: Batch, totals: Totals) -> None:
        """A micro-batch of a query, and what its totals are with it."""
        self.metrics.summary(BATCH_MS, self._pipeline, batch.query).observe(batch.took_ms)
        for metric, of in _SHOWN.items():
            if (value := of(totals)) is not None:
                self.metrics.cell(metric, self._pipeline, batch.query).value = value

    def unseen(self, queries: Iterable[str]) -> None:
        """Nobody knows how much these leave unread."""
        for query in queries:
            self.metrics.drop(LAG, self._pipeline, query)
