"""The source beside Spark's own: rows a second from a topic through a filter, in batch and as a stream.

    python -m bench.spark_source [--rows 10000000] [--rounds 3]

All run in one session, under the same settings, on the same topic, in turn. A query's start is measured with it, and a
stream starts several processes: give it rows enough.
The ratio in one run is what counts. Where others use the machine too, the processor time says more than the clock.
"""

import argparse
import functools
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess

from bench import processes
from bench.spark_lines import OURS, ROWS_PER_S, THEIRS, Line, bench_session, end, java_pid, render

FILES = "segment files"
PARTITIONS = 4
VALUE_BYTES = 100
TOPIC = "rows"
TRIGGER_ROWS = 2_000_000
#: Keeps nine rows of ten, and must look at two columns for it.
FILTER = "length(value) > 50 AND offset % 10 < 9"
#: The name of each line, what ran, beside what, and what it must be of that.
LINES = (
    ("batch, topic → filter → count", "batch", OURS, THEIRS, 1.0),
    ("stream, 2 M rows a trigger, topic → filter → noop", "stream", OURS, THEIRS, 1.0),
    ("batch, segment files, beside the source", "batch", FILES, OURS, 1.1),
)


class Figures:
    """Rows a second by the clock, and by the processor time of everyone who took part, per round."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self.by_clock: dict[tuple[str, str], list[float]] = {}
        self.by_cpu: dict[tuple[str, str], list[float]] = {}

    def take(self, load: str, name: str, pids: list[int], work: Callable[[], object]) -> None:
        used_s, start_s = sum(map(processes.cpu_s, pids)), time.monotonic()
        work()
        self.by_clock.setdefault((load, name), []).append(self._rows / (time.monotonic() - start_s))
        self.by_cpu.setdefault((load, name), []).append(self._rows / (sum(map(processes.cpu_s, pids)) - used_s))

    def lines(self) -> list[Line]:
        """By the medians; by the clock what is held to something, by processor time to look at."""
        found = []
        for title, load, mine, other, least in LINES:
            for what, rates, held_to in (("", self.by_clock, least), (", by CPU time", self.by_cpu, None)):
                ours, theirs = (statistics.median(rates[load, name]) for name in (mine, other))
                found.append(Line(f"{title}{what}", ours, theirs, ROWS_PER_S, held_to=held_to))
        return found


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


def measure(rows: int, rounds: int) -> list[Line]:
    figures = Figures(rows)
    with tempfile.TemporaryDirectory() as folder:
        broker = BrokerProcess(Path(folder) / "data").start()
        spark = bench_session()
        try:
            fill(broker.address, rows)
            both = [java_pid(spark), broker.pid]
            for number in range(rounds + 1):  # The first warms up.
                taken = figures if number else Figures(rows)
                for form in (OURS, THEIRS) if number % 2 else (THEIRS, OURS):
                    told = {"form": form, "kafka.bootstrap.servers": broker.address}
                    taken.take("batch", form, both, functools.partial(batch, spark, **told))
                    taken.take("stream", form, both, functools.partial(stream, spark, **told))
                taken.take("batch", FILES, both, functools.partial(batch, spark, path=str(broker.data)))
        finally:
            end(spark)
            broker.kill()
    return figures.lines()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.spark_source", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    print(render(measure(given.rows, given.rounds)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
