"""State that can be asked: what a query keeps, as of its last finished micro-batch, as a DataFrame."""

from pyspark.sql import DataFrame, SparkSession

from millstream.pipelines.streams.stream import DELETED


def read_state(
    spark: SparkSession, checkpoint: str, variable: str | None = None, operator: int = 0, batch: int | None = None
) -> DataFrame:
    """Keys and values of one operator's state, flat. It is read from the checkpoint, beside the query that writes it.

    ``variable`` is the name that operators with Python state give it ("table", "left", "right", "value", "state");
    Spark's own aggregates need none. ``operator`` is Spark's number for it; ``state_operators`` lists them.
    """
    reader = spark.read.format("statestore").option("operatorId", operator)
    if variable is not None:
        reader = reader.option("stateVarName", variable)
    if batch is not None:
        reader = reader.option("batchId", batch)
    df = reader.load(checkpoint)
    flat = df.select("key.*", "value.*")
    return flat.where(f"NOT {DELETED}").drop(DELETED) if DELETED in flat.columns else flat


def state_operators(spark: SparkSession, checkpoint: str) -> DataFrame:
    """What may be asked: operator ids, their names, their partitions and batches."""
    return spark.read.format("state-metadata").load(checkpoint)
