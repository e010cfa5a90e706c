"""Windows over event time. Tumbling, hopping and session are Spark's own; sliding ends at each row."""

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from millstream.pipelines.streams.stream import TIME


@dataclass(frozen=True, slots=True)
class Window:
    """A kind of window: ``column`` assigns rows to windows; sliding has none, for its windows lie where the rows do."""

    kind: str
    size: str
    hop: str | None = None

    def column(self) -> Column:
        """The window or windows of a row."""
        if self.kind == "session":
            return F.session_window(TIME, self.size).alias("window")
        return F.window(TIME, self.size, self.hop or self.size).alias("window")


def tumbling(size: str) -> Window:
    """One after another, each row in one."""
    return Window("tumbling", size)


def hopping(size: str, hop: str) -> Window:
    """A window of ``size`` begins every ``hop``; a row is in all that cover it."""
    return Window("hopping", size, hop)


def sliding(size: str) -> Window:
    """For each row, the rows of its group from ``size`` before it up to it, both included (SQL's RANGE … PRECEDING)."""
    return Window("sliding", size)


def session(gap: str) -> Window:
    """Rows that follow one another within ``gap``."""
    return Window("session", gap)
