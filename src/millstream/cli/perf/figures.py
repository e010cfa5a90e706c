"""What a measurement found: counts, rates and how latencies are spread."""

from array import array
from collections.abc import Sequence

#: Name -> how many of a thousand measurements are at or below it; whole numbers, or 99.9 % of 1000 is rounded up.
PERMILLES = {"p50": 500, "p95": 950, "p99": 990, "p99.9": 999}
NS_PER_MS = 1e6


class Latencies:
    """Times that requests took, in nanoseconds."""

    def __init__(self) -> None:
        self.all_ns = array("q")
        self._told = 0

    def add(self, taken_ns: int) -> None:
        self.all_ns.append(taken_ns)

    def spread_ms(self) -> dict[str, float]:
        """Percentiles, maximum and mean in milliseconds; nothing where nothing was measured."""
        return spread_ms(self.all_ns)

    def recent_ms(self) -> dict[str, float]:
        """The same of what came since this was last asked."""
        recent = self.all_ns[self._told :]
        self._told = len(self.all_ns)
        return spread_ms(recent)


def spread_ms(taken_ns: Sequence[int]) -> dict[str, float]:
    """Percentiles by nearest rank, so that each is a time that was really measured."""
    if not len(taken_ns):
        return {}
    ordered = sorted(taken_ns)
    figures = {
        name: ordered[-(-permille * len(ordered) // 1000) - 1] / NS_PER_MS for name, permille in PERMILLES.items()
    }
    figures["max"] = ordered[-1] / NS_PER_MS
    figures["mean"] = sum(ordered) / len(ordered) / NS_PER_MS
    return {name: round(value, 4) for name, value in figures.items()}


def spread_text(figures: dict[str, float]) -> str:
    """``p50 0.12 ms  p95 …`` on one line."""
    return "  ".join(f"{name} {value:.3g} ms" for name, value in figures.items()) or "no answers"


def rate_text(records: int, size_bytes: int, seconds: float) -> str:
    """``1,234,567 records/s, 123.4 MB/s``."""
    seconds = max(seconds, 1e-9)
    return f"{records / seconds:,.0f} records/s, {size_bytes / seconds / 1e6:,.1f} MB/s"


def throughput(records: int, size_bytes: int, seconds: float) -> dict[str, float]:
    """The same as numbers, for JSON."""
    return {
        "records": records,
        "bytes": size_bytes,
        "seconds": round(seconds, 4),
        "records_per_s": round(records / max(seconds, 1e-9), 1),
        "mb_per_s": round(size_bytes / max(seconds, 1e-9) / 1e6, 3),
    }
