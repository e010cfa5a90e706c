"""The sink beside Spark's own: rows a second into a topic, and how long a record takes from topic to topic.

    python -m bench.spark_sink [--rows 2000000] [--rounds 3] [--wait-rounds 8] [--seconds 20]

Both run in one session, under the same settings, against the same broker; ours exactly once, Spark's at least once. The
ratio in one run is what counts. Where others use the machine too, the processor time says more than the clock.
"""

import argparse
import statistics
import sys
import tempfile
import time
from typing import NamedTuple

from pyspark.sql import SparkSession
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess

from bench import processes, runner
from bench.progress import say
from bench.spark_lines import MILLIS, OURS, ROWS_PER_S, THEIRS, Line, bench_session, end, java_pid, render
from bench.table import LESS

PARTITIONS = 4
RECORDS_PER_S = 1_000
WARM_UP_S = 10.0
SINK_RATIO_LEAST = 0.7


class Rate(NamedTuple):
    """Rows a second, by the clock and by the processor time of everyone who took part."""

    by_clock: float
    by_cpu: float


def rate_of(spark: SparkSession, form: str, broker: BrokerProcess, rows: int) -> Rate:
    """100-byte values, no keys, two tasks."""
    frame = spark.range(0, rows, 1, 2).selectExpr("lpad(string(id), 100, 'x') as value")
    writer = frame.write.format(form).mode("append").option("topic", f"rows-{form}")
    pids = [java_pid(spark), broker.pid]
    used_s, start_s = sum(map(processes.cpu_s, pids)), time.monotonic()
    writer.option("kafka.bootstrap.servers", broker.address).save()
    return Rate(rows / (time.monotonic() - start_s), rows / (sum(map(processes.cpu_s, pids)) - used_s))


def latency_of(spark: SparkSession, form: str, server: BrokerProcess, seconds: float) -> runner.Figures:
    """From just before a record is sent until a reader of committed records has its copy, at a steady rate.

    Who sends and reads is a process of its own, as elsewhere: the query's has enough to do.
    """
    brokers = {"kafka.bootstrap.servers": server.address}
    source, target = f"in-{form}", f"out-{form}"
    frame = spark.readStream.format(form).options(**brokers, subscribe=source, startingOffsets="latest").load()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as checkpoint:  # A stopped query may still write.
        query = (
            frame.select("value")
            .writeStream.format(form)
            .options(**brokers, topic=target)
            .option("checkpointLocation", checkpoint)
            .start()
        )
        given: dict[str, float | str] = {
            "target": target,
            "partitions": PARTITIONS,
            "warm_up_s": WARM_UP_S,
            "seconds": seconds,
        }
        try:
            return runner.run("librdkafka_through", server, topic=source, rate=RECORDS_PER_S, **given)
        except runner.LoadFailed as failure:
            raise RuntimeError(f"{failure}; the query to measure: {query.exception() or query.status}") from failure
        finally:
            query.stop()


def measure(rows: int, rounds: int, wait_rounds: int, seconds: float) -> list[Line]:
    spark = bench_session()
    try:
        with tempfile.TemporaryDirectory() as data, BrokerProcess(data) as broker:
            topics = Topics(broker.address)
            for kind in ("rows", "in", "out"):
                for form in (OURS, THEIRS):
                    topics.new(PARTITIONS, name=f"{kind}-{form}")
            return [*_rates(spark, broker, rows, rounds), *_waits(spark, broker, wait_rounds, seconds)]
    finally:
        end(spark)


def _rates(spark: SparkSession, broker: BrokerProcess, rows: int, rounds: int) -> list[Line]:
    rates: dict[str, list[Rate]] = {OURS: [], THEIRS: []}
    for number in range(rounds + 1):
        for form, found in rates.items():
            rate = rate_of(spark, form, broker, rows)
            found += [rate] if number else []  # The first warms up.
    lines = []
    for name, place, held_to in (("", 0, SINK_RATIO_LEAST), (", by CPU time", 1, None)):
        ours, theirs = (statistics.median(rate[place] for rate in rates[form]) for form in (OURS, THEIRS))
        title = f"sink, exactly once beside at least once{name}"
        lines.append(Line(title, ours, theirs, ROWS_PER_S, held_to=held_to))
    return lines


def _waits(spark: SparkSession, broker: BrokerProcess, rounds: int, seconds: float) -> list[Line]:
    """In turns, for whatever else the machine does meanwhile, and first in turns: Java gets faster all the while.

    That takes it some minutes, so there are more of these rounds than of others.
    """
    waits: dict[str, list[runner.Figures]] = {OURS: [], THEIRS: []}
    for number in range(rounds + 1):
        for form in [OURS, THEIRS][:: -1 if number % 2 else 1]:
            found = latency_of(spark, form, broker, seconds)
            p50, p99 = (MILLIS[1].format(found[f"{name}_us"] * MILLIS[0]) for name in ("p50", "p99"))
            say(f"round {number} of {rounds}: {form} {p50}, p99 {p99}")
            waits[form] += [found] if number else []  # The first warms up.
    lines = []
    for name in ("p50", "p99"):
        ours, theirs = (statistics.median(each[f"{name}_us"] for each in waits[form]) for form in (OURS, THEIRS))
        title = f"topic → query → topic at 1,000 records/s, exactly once beside at least once, {name}"
        lines.append(Line(title, ours, theirs, MILLIS, LESS, held_to=1.0))
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.spark_sink", description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--wait-rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=20.0)
    given = parser.parse_args()
    print(render(measure(given.rows, given.rounds, given.wait_rounds, given.seconds)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
