"""How far a pipeline's queries are, over all its runs, and the line that says it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from millstream.pipelines.running.reports import Batch


@dataclass
class Totals:
    """A query's figures: what it did since the start, and where it stands."""

    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    #: None while nobody knows.
    lag: int | None = None
    took_ms: int = 0
    state_rows: int = 0
    state_bytes: int = 0

    def add(self, batch: Batch) -> None:
        """Count a micro-batch in."""
        self.batches += 1
        self.rows_in += batch.rows_in
        self.rows_out += batch.rows_out or 0
        self.lag = self.lag if batch.lag is None else batch.lag
        self.took_ms = batch.took_ms
        self.state_rows, self.state_bytes = batch.state_rows, batch.state_bytes

    def __add__(self, other: "Totals") -> "Totals":
        """Both queries as one: the slower batch is the batch's time."""
        return Totals(
            self.batches + other.batches,
            self.rows_in + other.rows_in,
            self.rows_out + other.rows_out,
            None if self.lag is None or other.lag is None else self.lag + other.lag,
            max(self.took_ms, other.took_ms),
            self.state_rows + other.state_rows,
            self.state_bytes + other.state_bytes,
        )


class Down(NamedTuple):
    """A pipeline that fell: its queries as far as they are known, and how it is with it when someone asks."""

    queries: frozenset[str]
    standing: Callable[[], str]


class Progress:
    """Every query's totals, and what was last said of them."""

    def __init__(self) -> None:
        self.queries: dict[str, Totals] = {}
        #: By the pipeline's name.
        self.down: dict[str, Down] = {}
        self._said: dict[str, tuple[int, int, int]] = {}

    def add(self, batch: Batch) -> None:
        """Count a micro-batch of a query in."""
        self.queries.setdefault(batch.query, Totals()).add(batch)

    def fell(self, pipeline: str, queries: Iterable[str], standing: Callable[[], str]) -> None:
        """A pipeline is down until it is told to have started; how far its queries are behind, nobody knows."""
        self.down[pipeline] = Down(frozenset(queries), standing)
        self.unseen(self.down[pipeline].queries)

    def unseen(self, queries: Iterable[str]) -> None:
        """Nobody knows how far behind these are, until a micro-batch tells."""
        for query in queries:
            self.queries[query].lag = None

    def started(self, pipeline: str) -> None:
        """A pipeline runs, for the first time or again."""
        self.down.pop(pipeline, None)

    @property
    def whole(self) -> Totals:
        """All queries as one."""
        return sum(self.queries.values(), Totals(lag=0))

    def lines(self, passed_s: float) -> list[str]:
        """A line for each query: rates since the last lines, ``passed_s`` ago, and where it stands.

        A pipeline that is down has one that says so, instead of its queries'.
        """
        lines = {name: self._line(name, totals, passed_s) for name, totals in self.queries.items()}
        return [*(lines[name] for name in self._running()), *self._fallen()]

    def line(self, passed_s: float) -> str:
        """One line for all of them together."""
        if len(self.queries) == 1 or not self._running():
            return " | ".join(self.lines(passed_s))
        return " | ".join([self._line(f"{len(self.queries)} queries", self.whole, passed_s), *self._fallen()])

    def _running(self) -> list[str]:
        resting = frozenset[str]().union(*(down.queries for down in self.down.values()))
        return [name for name in self.queries if name not in resting]

    def _fallen(self) -> list[str]:
        return [f"{pipeline}  {down.standing()}" for pipeline, down in self.down.items()]

    def _line(self, name: str, now: Totals, passed_s: float) -> str:
        batches, rows_in, rows_out = self._said.get(name, (0, 0, 0))
        self._said[name] = (now.batches, now.rows_in, now.rows_out)
        parts = [
            f"{_rate(now.rows_in - rows_in, passed_s)} rows/s in",
            f"{_rate(now.rows_out - rows_out, passed_s)} out",
            f"lag {_known(now.lag)}",
            # A query that rests has no latency to speak of.
            f"batch {now.took_ms:,} ms" if now.batches > batches else "idle",
        ]
        if now.state_rows or now.state_bytes:
            parts.append(f"state {now.state_rows:,} rows, {now.state_bytes / 1e6:,.1f} MB")
        return f"{name}  " + "  ".join(parts)

    def summary(self, elapsed_s: float) -> str:
        """What was done in all."""
        whole = self.whole
        return (
            f"{whole.rows_in:,} rows in, {whole.rows_out:,} out, {whole.batches:,} batches in {elapsed_s:,.0f} s, "
            f"lag {_known(whole.lag)}"
        )


def _known(lag: int | None) -> str:
    return "unknown" if lag is None else f"{lag:,}"


def _rate(count: int, passed_s: float) -> str:
    return f"{count / passed_s:,.0f}" if passed_s > 0 else "0"
