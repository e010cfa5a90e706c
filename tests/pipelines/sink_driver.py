"""A driver to be killed: copies a topic into another, in many small batches, and ends when all of it is there.

A query that fails is started again in the same session, as a supervisor would, so that only a dead process stays dead.
In turn it reads and writes by several tasks, and by one that reads the partitions together, as small batches are.
"""

import argparse
import sys

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from millstream.pipelines.spark.session import spark_session
from tests.pipelines import standalone
from tests.pipelines.conftest import CONF

QUERY_TRIES_MAX = 100
ARGUMENTS = ("bootstrap", "source", "target", "checkpoint", "delivery", "batch_records", "master", "first_try")


def copying(spark: SparkSession, given: argparse.Namespace, *, is_packed: bool) -> DataStreamWriter:
    """The query, from one topic into the other."""
    brokers = {"kafka.bootstrap.servers": given.bootstrap, "kafka.request.timeout.ms": "20000"}
    reader = (
        spark.readStream.format("millstream")
        .options(**brokers, subscribe=given.source, startingOffsets="earliest")
        .option("maxOffsetsPerTrigger", given.batch_records)
    )
    rows = (reader if is_packed else reader.option("minPartitions", "2")).load().select("key", "value")
    if not is_packed and not given.master.startswith("local"):
        rows = rows.repartition(2, "value")  # On a cluster what is lost may lie in a shuffle, too.
    return (
        rows.writeStream.format("millstream")
        .options(**brokers, topic=given.target, delivery=given.delivery)
        .option("checkpointLocation", given.checkpoint)
        .trigger(availableNow=True)
    )


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ARGUMENTS:
        parser.add_argument(name)
    given = parser.parse_args()
    is_local = given.master.startswith("local")
    spark = spark_session("sink driver", given.master, **CONF, **({} if is_local else standalone.CONF))
    first = int(given.first_try)
    for number in range(first, first + QUERY_TRIES_MAX):
        try:
            copying(spark, given, is_packed=not number % 2).start().awaitTermination()
        except PySparkException as failure:
            sys.stderr.write(f"the query failed: {str(failure)[:4000]}\n")
        else:
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
