"""The lines of the Spark table: ours beside another in one run, and what the ratio of the two is held to."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from pyspark.sql import SparkSession
from tests.pipelines.connector import connector_jars

from bench.table import LESS, MORE, Format
from millstream.pipelines.spark.session import spark_session

OURS, THEIRS = "millstream", "kafka"
ROWS_PER_S: Format = (1e-6, "{:.2f} M rows/s")
MILLIS: Format = (1e-3, "{:.1f} ms")


@dataclass(frozen=True)
class Line:
    """What was measured of ours and of another; ``held_to`` is the least ratio of the two, or the greatest."""

    name: str
    ours: float
    other: float
    form: Format
    better: str = MORE
    held_to: float | None = None

    @property
    def ratio(self) -> float:
        return self.ours / self.other

    @property
    def is_met(self) -> bool:
        if self.held_to is None:
            return True
        return self.ratio >= self.held_to if self.better == MORE else self.ratio <= self.held_to

    def shown(self) -> str:
        scale, form = self.form
        target = verdict = ""
        if self.held_to is not None:
            target = f"{'≤' if self.better == LESS else '≥'} {self.held_to:g}×"
            verdict = "met" if self.is_met else "**missed**"
        figures = (form.format(each * scale) for each in (self.ours, self.other))
        return "| " + " | ".join([self.name, *figures, f"{self.ratio:.2f}×", target, verdict]) + " |"


def render(lines: Iterable[Line]) -> str:
    """A Markdown table."""
    heads = "| line | millstream | Spark's connector, or what the line names | ratio | target | |"
    return "\n".join([heads, "|-|-|-|-|-|-|", *(line.shown() for line in lines)])


def bench_session() -> SparkSession:
    """Two task slots, what `spark_session` sets for everybody, and the connector's jars: both run under the same."""
    conf = {"spark.driver.memory": "2g", "spark.ui.enabled": "false", "spark.log.level": "OFF"}
    return spark_session("bench", "local[2]", **conf, **{"spark.jars": connector_jars()})


def java_pid(spark: SparkSession) -> int:
    """The process that Spark runs in; its Python workers are its children."""
    pid: int = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    return pid


def end(spark: SparkSession) -> None:
    """Stop the session, whatever became of its Java."""
    with suppress(Exception):
        spark.stop()
