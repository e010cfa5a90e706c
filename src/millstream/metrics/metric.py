"""Counters, gauges and summaries, cheap enough for the path of every request.

Whoever counts asks once for its cell and then does ``cell.value += n``: no lookup, no lock, no call.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

Labels = tuple[str, ...]
#: A value, or one for each of its labels; they may be made as they are asked for.
Reading = Callable[[], float | Iterable[tuple[Labels, float]]]


class Kind(Enum):
    """What a metric is, in Prometheus' words."""

    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric's declaration: the name dashboards query, and the names of its labels."""

    name: str
    kind: Kind
    doc: str
    labels: Labels = ()


class Cell:
    """One number of a counter or gauge."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0


#: Upper bounds of a summary's buckets: from a hundredth up, each a quarter above the last, so that a quantile is
#: right to about a tenth of itself.
BOUNDS: tuple[float, ...] = tuple(0.01 * 1.25**step for step in range(72))


#: How often whoever keeps metrics lets them ``turn``.
TURN_S = 60


class Summary:
    """How a quantity is spread: its count and sum for ever, its quantiles over the last one to two turns."""

    __slots__ = ("_before", "_most", "_most_before", "_now", "count", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self._now = [0] * (len(BOUNDS) + 1)
        self._before = [0] * (len(BOUNDS) + 1)
        self._most = self._most_before = float("-inf")

    def observe(self, value: float) -> None:
        """Count one value in."""
        self.count += 1
        self.total += value
        self._now[bisect_left(BOUNDS, value)] += 1
        if value > self._most:
            self._most = value

    def turn(self) -> None:
        """Forget, for the quantiles, what came before the last turn."""
        self._before, self._now = self._now, [0] * (len(BOUNDS) + 1)
        self._most_before, self._most = self._most, float("-inf")

    def quantile(self, part: float) -> float:
        """The value that ``part`` of the recent ones do not pass; NaN when there were none.

        It is its bucket's bound, but never above the greatest of them.
        """
        counts = [now + before for now, before in zip(self._now, self._before, strict=True)]
        total = sum(counts)
        if not total:
            return float("nan")
        seen, most = 0, max(self._most, self._most_before)
        for bound, count in zip(BOUNDS, counts[:-1], strict=True):
            seen += count
            if seen >= part * total:
                return min(bound, most)
        return most


class Metrics:
    """The numbers of one broker, for a table of metrics."""

    def __init__(self, table: Sequence[Metric]) -> None:
        self.table = table
        self._cells: dict[Metric, dict[Labels, Cell]] = {metric: {} for metric in table}
        self._summaries: dict[Metric, dict[Labels, Summary]] = {metric: {} for metric in table}
        self._readings: dict[Metric, Reading] = {}

    def cell(self, metric: Metric, *labels: str) -> Cell:
        """The number to count on, the same one for the same labels; to be asked for once and kept."""
        assert metric.kind is not Kind.SUMMARY and len(labels) == len(metric.labels), f"{metric.name}{labels}"
        return self._cells[metric].setdefault(labels, Cell())

    def summary(self, metric: Metric, *labels: str) -> Summary:
        """The summary to observe with; to be asked for once and kept."""
        assert metric.kind is Kind.SUMMARY and len(labels) == len(metric.labels), f"{metric.name}{labels}"
        return self._summaries[metric].setdefault(labels, Summary())

    def read(self, metric: Metric, reading: Reading) -> None:
        """Ask ``reading`` for the value (or a value per labels) whenever someone looks: no cost until then."""
        assert metric.kind is not Kind.SUMMARY and metric in self._cells, metric.name
        self._readings[metric] = reading

    def drop(self, metric: Metric, *labels: str) -> None:
        """Show this number no more, for nobody knows it; it comes back as a new cell."""
        self._cells[metric].pop(labels, None)

    def forget(self, **labels: str) -> None:
        """Drop every number of just these labels: a deleted topic's, say."""
        names, values = tuple(labels), tuple(labels.values())
        for metric in self.table:
            if metric.labels == names:
                self._cells[metric].pop(values, None)
                self._summaries[metric].pop(values, None)

    def values(self, metric: Metric) -> Iterator[tuple[Labels, float]]:
        """Every number of a counter or gauge."""
        for labels, cell in list(self._cells[metric].items()):
            yield labels, cell.value
        if metric in self._readings:
            read = self._readings[metric]()
            yield from read if isinstance(read, Iterable) else [((), read)]

    def summaries(self, metric: Metric) -> Iterator[tuple[Labels, Summary]]:
        """Every summary of a metric."""
        yield from list(self._summaries[metric].items())

    def turn(self) -> None:
        """Let every summary forget what is too old."""
        for found in self._summaries.values():
            for summary in found.values():
                summary.turn()
