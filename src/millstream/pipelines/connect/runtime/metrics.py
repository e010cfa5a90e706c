"""The metrics of a worker."""

from collections.abc import Callable, Iterator

from millstream.metrics.metric import Kind, Labels, Metric, Metrics
from millstream.pipelines.connect.reports import Batch

_CONNECTOR = ("connector",)

RECORDS = Metric("millstream_connect_records_total", Kind.COUNTER, "Records brought or taken.", _CONNECTOR)
BATCHES = Metric("millstream_connect_batches_total", Kind.COUNTER, "Batches ended.", _CONNECTOR)
BATCH_NUMBER = Metric("millstream_connect_batch_number", Kind.GAUGE, "The number of the last batch.", _CONNECTOR)
BATCH_MS = Metric("millstream_connect_batch_ms", Kind.SUMMARY, "Milliseconds that a batch took.", _CONNECTOR)
LAG = Metric("millstream_connect_lag_records", Kind.GAUGE, "Records of a sink's topics not taken yet.", _CONNECTOR)
STARTS = Metric("millstream_connect_starts_total", Kind.COUNTER, "Processes started.", _CONNECTOR)
FALLS = Metric("millstream_connect_falls_total", Kind.COUNTER, "Processes that ended untold.", _CONNECTOR)
TASKS = Metric("millstream_connect_tasks", Kind.GAUGE, "Tasks that the connector has.", _CONNECTOR)
STATE = Metric("millstream_connect_state", Kind.GAUGE, "1 for the state of its tasks.", ("connector", "state"))

#: Everything a worker counts.
METRICS: tuple[Metric, ...] = tuple(found for found in list(globals().values()) if isinstance(found, Metric))


class WorkerMetrics:
    """The numbers of one worker; what its connectors know themselves is read when someone looks."""

    def __init__(self, readings: dict[Metric, Callable[[], Iterator[tuple[Labels, float]]]]) -> None:
        self.metrics = Metrics(METRICS)
        for metric, reading in readings.items():
            self.metrics.read(metric, reading)

    def add(self, connector: str, batch: Batch) -> None:
        """A batch that a connector has ended."""
        self.metrics.cell(RECORDS, connector).value += batch.records
        self.metrics.cell(BATCHES, connector).value += 1
        self.metrics.cell(BATCH_NUMBER, connector).value = batch.number
        self.metrics.summary(BATCH_MS, connector).observe(batch.took_ms)
        if batch.lag is not None:
            self.metrics.cell(LAG, connector).value = batch.lag

    def forget(self, connector: str) -> None:
        """A connector is no more."""
        self.metrics.forget(connector=connector)
