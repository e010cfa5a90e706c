"""A driver to be killed: copies a topic into another, in many small batches, and ends when all of it is there.

A query that fails is started again in the same session, as a supervisor would, so that only a dead process stays dead.
"""

import argparse
import sys

from pyspark.errors import PySparkException

from millstream.pipelines.spark.session import spark_session
from tests.pipelines import standalone
from tests.pipelines.conftest import CONF

QUERY_TRIES_MAX = 100


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "source", "target", "checkpoint", "delivery", "batch_records", "master"):
        parser.add_argument(name)
    given = parser.parse_args()
    is_local = given.master.startswith("local")
    spark = spark_session("sink driver", given.master, **CONF, **({} if is_local else standalone.CONF))
    brokers = {"kafka.bootstrap.servers": given.bootstrap, "kafka.request.timeout.ms": "20000"}
    frame = (
        spark.readStream.format("millstream")
        .options(**brokers, subscribe=given.source, startingOffsets="earliest", minPartitions="2")  # Several tasks.
        .option("maxOffsetsPerTrigger", given.batch_records)
        .load()
    )
    rows = frame.select("key", "value")
    writer = (
        (rows if is_local else rows.repartition(2, "value"))  # On a cluster what is lost may lie in a shuffle, too.
        .writeStream.format("millstream")
        .options(**brokers, topic=given.target, delivery=given.delivery)
        .option("checkpointLocation", given.checkpoint)
        .trigger(availableNow=True)
    )
    for _ in range(QUERY_TRIES_MAX):
        try:
            writer.start().awaitTermination()
        except PySparkException as failure:
            sys.stderr.write(f"the query failed: {str(failure)[:4000]}\n")
        else:
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
