"""The source beside Spark's own: rows a second from a topic through a filter, in batch and as a stream.

    python -m bench.spark_source [--rows 10000000] [--rounds 3]

All run in one session, under the same settings, on the same topic, in turn. A query's start is measured with it, and a
stream starts several processes: give it rows enough.
The ratio in one run is what counts. Where others use the machine too, the processor time says more than the clock.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from tests.pipelines.connector import connector_jars
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess

from bench import processes
from millstream.pipelines.spark.session import spark_session

OURS, THEIRS, FILES = "millstream", "kafka", "segment files"
PARTITIONS = 4
VALUE_BYTES = 100
TOPIC = "rows"
TRIGGER_ROWS = 2_000_000
#: Keeps nine rows of ten, and must look at two columns for it.
FILTER = "length(value) > 50 AND offset % 10 < 9"
#: What a figure must be of another one in the same run.
TARGETS = {("batch", OURS, THEIRS): 1.0, ("stream", OURS, THEIRS): 1.0, ("batch", FILES, OURS): 1.1}


class Figures:
    """Rows a second by the clock, and by the processor time of everyone who took part, per round."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self.by_clock: dict[tuple[str, str], list[float]] = {}
        self.by_cpu: dict[tuple[str, str], list[float]] = {}

    def take(self, load: str, name: str, pids: list[int], work: Callable[[], object]) -> None:
        used_s, start_s = sum(map(_cpu_s, pids)), time.monotonic()
        work()
        self.by_clock.setdefault((load, name), []).append(self._rows / (time.monotonic() - start_s))
        self.by_cpu.setdefault((load, name), []).append(self._rows / (sum(map(_cpu_s, pids)) - used_s))

    def table(self) -> str:
        """Markdown, by the medians."""
        lines = ["| load | source | rows/s | rows per CPU second | of the other | target |", "|-|-|-|-|-|-|"]
        for (load, name), rates in self.by_clock.items():
            rate, per_cpu = statistics.median(rates), statistics.median(self.by_cpu[load, name])
            held = [(other, least) for (each, mine, other), least in TARGETS.items() if (each, mine) == (load, name)]
            ratio = target = "—"
            if held and (load, held[0][0]) in self.by_clock:
                other, least = held[0]
                found = rate / statistics.median(self.by_clock[load, other])
                ratio, target = f"{found:.2f}× {other}", f"≥ {least:g}× ({'met' if found >= least else '**missed**'})"
            lines.append(f"| {load} | {name} | {rate / 1e6:.2f} M | {per_cpu / 1e6:.2f} M | {ratio} | {target} |")
        return "\n".join(lines)


def _cpu_s(pid: int) -> float:
    return processes.cpu_s(pid)


def fill(address: str, rows: int) -> None:
    """So many rows of 100 bytes, over all partitions."""
    Topics(address).new(PARTITIONS, name=TOPIC)
    settings = {"linger.ms": 20, "batch.size": 1_000_000, "queue.buffering.max.messages": 1_000_000}
    producer = Producer({"bootstrap.servers": address, **settings})
    value = bytes(range(VALUE_BYTES))
    for number in range(rows):
        while True:
            try:
                producer.produce(TOPIC, value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()


def batch(spark: SparkSession, **options: str) -> None:
    form = options.pop("form", OURS)
    spark.read.format(form).options(subscribe=TOPIC, **options).load().filter(FILTER).count()


def stream(spark: SparkSession, **options: str) -> None:
    """All there is, micro-batch by micro-batch, into nothing."""
    form = options.pop("form", OURS)
    reader = spark.readStream.format(form).options(subscribe=TOPIC, startingOffsets="earliest", **options)
    table: DataFrame = reader.option("maxOffsetsPerTrigger", TRIGGER_ROWS).load().filter(FILTER)
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = table.writeStream.format("noop").option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()


def measure(rows: int, rounds: int) -> str:
    conf = {"spark.driver.memory": "2g", "spark.ui.enabled": "false", "spark.log.level": "ERROR"}
    figures = Figures(rows)
    with tempfile.TemporaryDirectory() as folder:
        broker = BrokerProcess(Path(folder) / "data").start()
        spark = spark_session("bench", "local[2]", **conf, **{"spark.jars": connector_jars()})
        try:
            java = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
            fill(broker.address, rows)
            for number in range(rounds + 1):  # The first warms up.
                taken = figures if number else Figures(rows)
                for form in (OURS, THEIRS) if number % 2 else (THEIRS, OURS):
                    told = {"form": form, "kafka.bootstrap.servers": broker.address}
                    both = [java, broker.pid]
                    taken.take("batch", form, both, lambda told=told: batch(spark, **told))  # type: ignore[misc]
                    taken.take("stream", form, both, lambda told=told: stream(spark, **told))  # type: ignore[misc]
                taken.take("batch", FILES, [java], lambda: batch(spark, path=str(broker.data)))
        finally:
            spark.stop()
            broker.kill()
    return figures.table()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.spark_source", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print(measure(given.rows, given.rounds), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
