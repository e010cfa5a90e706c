"""Topics as Spark's users read them in these tests."""

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

Place = tuple[str, int, int]
RUN_TIMEOUT_S = 100


def load(spark: SparkSession, address: str, /, **options: object) -> DataFrame:
    """The table that these options name, of ``source`` where that is not ours; two underscores stand for a dot."""
    reader = spark.read.format(str(options.pop("source", "millstream"))).option("kafka.bootstrap.servers", address)
    for name, value in options.items():
        reader = reader.option(name.replace("__", "."), str(value))
    return reader.load()


def load_stream(spark: SparkSession, address: str, /, **options: object) -> DataFrame:
    """The same as a stream."""
    reader = spark.readStream.format(str(options.pop("source", "millstream"))).option(
        "kafka.bootstrap.servers", address
    )
    for name, value in options.items():
        reader = reader.option(name.replace("__", "."), str(value))
    return reader.load()


def places(table: DataFrame) -> list[Place]:
    """Where each row comes from, in order."""
    rows = table.select("topic", "partition", "offset").collect()
    return sorted((row.topic, row.partition, row.offset) for row in rows)


def offsets(table: DataFrame) -> list[int]:
    """The offsets of a table that is one partition."""
    return [place[2] for place in places(table)]


def read_count(table: DataFrame) -> tuple[int, int]:
    """How many rows a table has, and how many records were read to find them."""
    rows = len(table.collect())
    leaves: Any = table._jdf.queryExecution().executedPlan().collectLeaves()
    return rows, sum(int(leaves.apply(at).metrics().apply("numOutputRows").value()) for at in range(leaves.size()))


def run_available(stream: DataFrame, checkpoint: Path) -> list[list[Place]]:
    """What each micro-batch gives of all that is there now; a new query may begin with an empty one, left out here."""
    found: list[list[Place]] = []
    query = (
        stream.writeStream.foreachBatch(lambda table, number: found.append(places(table)))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(RUN_TIMEOUT_S), "the stream did not come to its end"
    finally:
        query.stop()
    return [batch for batch in found if batch]
