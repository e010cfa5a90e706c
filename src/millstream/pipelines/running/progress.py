"""How far a pipeline's queries are, over all its runs, and the line that says it."""

from dataclasses import dataclass

from millstream.pipelines.running.reports import Batch


@dataclass
class Totals:
    """A query's figures: what it did since the start, and where it stands."""

    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    lag: int = 0
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
            self.lag + other.lag,
            max(self.took_ms, other.took_ms),
            self.state_rows + other.state_rows,
            self.state_bytes + other.state_bytes,
        )


class Progress:
    """Every query's totals, and what was last said of them."""

    def __init__(self) -> None:
        self.queries: dict[str, Totals] = {}
        self._said: dict[str, tuple[int, int, int]] = {}

    def add(self, batch: Batch) -> None:
        """Count a micro-batch of a query in."""
        self.queries.setdefault(batch.query, Totals()).add(batch)

    @property
    def whole(self) -> Totals:
        """All queries as one."""
        return sum(self.queries.values(), Totals())

    def lines(self, passed_s: float) -> list[str]:
        """A line for each query: rates since the last lines, ``passed_s`` ago, and where it stands."""
        return [self._line(name, totals, passed_s) for name, totals in self.queries.items()]

    def line(self, passed_s: float) -> str:
        """One line for all of them together."""
        if len(self.queries) == 1:
            return self.lines(passed_s)[0]
        return self._line(f"{len(self.queries)} queries", self.whole, passed_s)

    def _line(self, name: str, now: Totals, passed_s: float) -> str:
        batches, rows_in, rows_out = self._said.get(name, (0, 0, 0))
        self._said[name] = (now.batches, now.rows_in, now.rows_out)
        parts = [
            f"{_rate(now.rows_in - rows_in, passed_s)} rows/s in",
            f"{_rate(now.rows_out - rows_out, passed_s)} out",
            f"lag {now.lag:,}",
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
            f"lag {whole.lag:,}"
        )


def _rate(count: int, passed_s: float) -> str:
    return f"{count / passed_s:,.0f}" if passed_s > 0 else "0"
