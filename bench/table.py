"""Rows, what each is held to, and the table of figures and ratios as Markdown."""

from dataclasses import dataclass
from statistics import median

CEILING, MILLSTREAM, KAFKA = "ceiling", "millstream", "Apache Kafka"

MORE, LESS = "more", "less"

Format = tuple[float, str]
MILLIONS: Format = (1e-6, "{:.2f} M/s")
THOUSANDS: Format = (1e-3, "{:.1f} k/s")
PER_S: Format = (1.0, "{:.0f} /s")
MB_PER_S: Format = (1e-6, "{:.0f} MB/s")
MILLIS: Format = (1e-3, "{:.2f} ms")
SECONDS: Format = (1.0, "{:.2f} s")
MB: Format = (1e-6, "{:.0f} MB")
TIMES: Format = (1.0, "{:.2f}×")


@dataclass(frozen=True)
class Row:
    """One line of the table: what is measured, by which client, and what it is held to."""

    key: str
    name: str
    load: str
    form: Format
    better: str
    #: Against the ceiling: at least (more) or at most (less) this ratio.
    of_ceiling: float | None = None
    #: Against Apache Kafka; ahead on every line unless a stricter ratio is given.
    of_kafka: float | None = 1.0
    #: At most this figure, whoever else was measured; in the unit of the raw figure.
    limit: float | None = None

    def shown(self, value: float | None) -> str:
        scale, form = self.form
        return "—" if value is None else form.format(value * scale)

    def target(self) -> str:
        sign, words = ("≥" if self.better == MORE else "≤"), []
        if self.of_ceiling is not None:
            words.append(f"{sign} {self.of_ceiling:g}× ceiling")
        if self.of_kafka is not None:
            words.append("ahead of Kafka" if self.of_kafka == 1 else f"{sign} {self.of_kafka:g}× Kafka")
        if self.limit is not None:
            words.append(f"≤ {self.shown(self.limit)}")
        return ", ".join(words)

    def _keeps(self, value: float, other: float | None, ratio: float | None) -> bool:
        if other is None or ratio is None:
            return True
        return value >= other * ratio if self.better == MORE else value <= other * ratio

    def verdict(self, figures: dict[str, float]) -> str:
        """Whether the broker keeps the row's targets against whoever was measured beside it."""
        value = figures.get(MILLSTREAM)
        if value is None or not self.target():
            return ""
        kept = (
            self._keeps(value, figures.get(CEILING), self.of_ceiling)
            and self._keeps(value, figures.get(KAFKA), self.of_kafka)
            and (self.limit is None or value <= self.limit)
        )
        return "met" if kept else "**missed**"


def _ratio(figures: dict[str, float], other: str) -> str:
    value, base = figures.get(MILLSTREAM), figures.get(other)
    return f"{value / base:.2f}×" if value is not None and base else "—"


#: Figures of every round, by row and server.
Measured = dict[str, dict[str, list[float]]]


def medians(measured: Measured) -> dict[str, dict[str, float]]:
    return {
        key: {server: median(values) for server, values in by_server.items() if values}
        for key, by_server in measured.items()
    }


def render(rows: list[Row], measured: Measured) -> str:
    """A Markdown table of the rows that were measured; each figure is the median of its rounds."""
    figures_of = medians(measured)
    # The ceiling keeps no offsets and has no replicas: a table of such things alone has no columns for it.
    others = [KAFKA] if not any(CEILING in figures for figures in figures_of.values()) else [CEILING, KAFKA]
    servers = [server for server in (CEILING, MILLSTREAM, KAFKA) if server in (MILLSTREAM, *others)]
    heads = ["line", "load", *servers, *(f"of {other.removeprefix('Apache ')}" for other in others), "target", ""]
    lines = ["| " + " | ".join(heads) + " |", "|" + "-|" * len(heads)]
    for row in rows:
        figures = figures_of.get(row.key)
        if not figures:
            continue
        cells = [row.name, row.load, *(row.shown(figures.get(server)) for server in servers)]
        cells += [*(_ratio(figures, other) for other in others), row.target(), row.verdict(figures)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def replace_section(document: str, name: str, body: str) -> str:
    """The document with the text between the section's two marks replaced."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found, rest = document.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"the document has no section {name}")
    return f"{before}{begin}\n{body}\n{end}{after}"
