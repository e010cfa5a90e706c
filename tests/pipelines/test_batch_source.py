"""A topic read as a table, as it stands when the query is planned."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from millstream.pipelines.spark.source import COLUMNS
from tests.pipelines.topics import Topics


def load(spark: SparkSession, address: str, **options: object) -> DataFrame:
    """The table that these options name; Spark's own names with dots are given with two underscores for each."""
    reader = spark.read.format("millstream").option("kafka.bootstrap.servers", address)
    for name, value in options.items():
        reader = reader.option(name.replace("__", "."), str(value))
    return reader.load()


def places(table: DataFrame) -> list[tuple[str, int, int]]:
    return sorted(
        (row.topic, row.partition, row.offset) for row in table.select("topic", "partition", "offset").collect()
    )


def test_a_topic_is_a_table_with_the_columns_of_sparks_kafka_source(spark: SparkSession, topics: Topics) -> None:
    topic = topics.new(partitions=2)
    topics.put(topic, ["a", None], partition=0, timestamp_ms=1_700_000_000_000, key=b"k")
    topics.put(topic, ["b"], partition=1, timestamp_ms=1_700_000_000_500)
    table = load(spark, topics.address, subscribe=topic)
    assert table.schema == StructType(COLUMNS)
    rows = table.selectExpr("*", "unix_millis(timestamp) AS ms").orderBy("partition", "offset").collect()
    assert [(bytes(row.key) if row.key else None, bytes(row.value) if row.value else None) for row in rows] == [
        (b"k", b"a"),
        (b"k", None),
        (None, b"b"),
    ]
    assert [(row.topic, row.partition, row.offset, row.ms, row.timestampType) for row in rows] == [
        (topic, 0, 0, 1_700_000_000_000, 0),
        (topic, 0, 1, 1_700_000_000_001, 0),
        (topic, 1, 0, 1_700_000_000_500, 0),
    ]
