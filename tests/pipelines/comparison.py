"""Reads the same topics by both formats and prints where they differ; run by test_connector in its own process.

python -m tests.pipelines.comparison BROKER JARS CHECKPOINTS
"""

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession

from millstream.pipelines.spark.session import spark_session
from tests.pipelines.conftest import CONF
from tests.pipelines.tables import load, load_stream

THEN_MS = 1_700_000_000_000
COMMITTED = "read_committed"
ALL_PLACES = {"same-a": {"0": 1, "1": -2}, "same-b": {"0": 0}}
#: Options whose tables are compared, as batch and, where a stream may have them, as stream.
CASES: list[dict[str, object]] = [
    {"subscribe": "same-a"},
    {"subscribe": "same-a,same-b", "includeHeaders": "true"},
    {"subscribePattern": "same-[ab]", "startingOffsets": json.dumps(ALL_PLACES)},
    {"assign": '{"same-a": [1]}', "minPartitions": "3"},
    {"subscribe": "same-b", "kafka__isolation__level": COMMITTED},
    {"subscribe": "same-a", "startingTimestamp": str(THEN_MS + 2), "groupIdPrefix": "compare"},
    {
        "subscribe": "same-a",
        "startingOffsetsByTimestamp": json.dumps({"same-a": {"0": THEN_MS + 1, "1": THEN_MS + 1005}}),
    },
    {"subscribe": "same-a", "startingTimestamp": str(THEN_MS + 500), "startingOffsetsByTimestampStrategy": "latest"},
]
BOUNDED: list[dict[str, object]] = [
    {"subscribe": "same-a", "endingOffsets": json.dumps({"same-a": {"0": 2, "1": 7}})},
    {"subscribe": "same-a", "endingTimestamp": str(THEN_MS + 1003), "failOnDataLoss": "false"},
    {"subscribe": "same-a", "endingOffsetsByTimestamp": json.dumps({"same-a": {"0": THEN_MS + 1, "1": THEN_MS}})},
]


def rows(table: DataFrame) -> tuple[object, list[Row]]:
    return table.schema, sorted(table.collect(), key=lambda row: (row.topic, row.partition, row.offset))


def streamed(spark: SparkSession, stream: DataFrame, checkpoint: Path) -> tuple[object, list[Row]]:
    """The rows of all micro-batches of a run."""
    found: list[Row] = []
    query = (
        stream.writeStream.foreachBatch(lambda table, number: found.extend(table.collect()))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return stream.schema, sorted(found, key=lambda row: (row.topic, row.partition, row.offset))


def differences(spark: SparkSession, address: str, checkpoints: Path) -> list[str]:
    found = []
    for options in [*CASES, *BOUNDED]:
        ours, theirs = (rows(load(spark, address, source=source, **options)) for source in ("millstream", "kafka"))
        if ours != theirs or not ours[1]:
            found.append(f"batch {options}: {ours} is not {theirs}")
    for number, options in enumerate(CASES[1:7]):
        given = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "15", **options}
        ours, theirs = (
            streamed(spark, load_stream(spark, address, source=source, **given), checkpoints / f"{source}{number}")
            for source in ("millstream", "kafka")
        )
        if ours != theirs or not ours[1]:
            found.append(f"stream {given}: {ours} is not {theirs}")
    return found


def through_their_sink(spark: SparkSession, address: str, checkpoint: Path) -> tuple[int, int]:
    """What their sink wrote, by batch and by stream, of one topic's 23 records; counted by our source."""

    def written() -> int:
        return load(spark, address, subscribe="same-out").count()

    sink = {"kafka.bootstrap.servers": address, "topic": "same-out"}
    load(spark, address, source="kafka", subscribe="same-a").select("key", "value").write.format("kafka").options(
        **sink
    ).save()
    by_batch = written()
    stream = load_stream(spark, address, source="kafka", subscribe="same-a", startingOffsets="earliest")
    writing = stream.select("key", "value").writeStream.format("kafka").options(**sink)
    writing.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
    return by_batch, written() - by_batch


def where_sinks_differ(spark: SparkSession, address: str) -> list[str]:
    """The same frame through both sinks: records with the same key, value and headers, in the same partitions."""
    frame = spark.range(0, 300, 1, 1).selectExpr(
        "if(id % 7 = 0, null, repeat(string(id % 41), 1 + id % 9)) AS key",
        "if(id % 11 = 0, null, string(id)) AS value",
        "if(id % 3 = 0, array(named_struct('key', 'h', 'value', binary(string(id)))), null) AS headers",
        "if(id % 7 = 0, int(id % 5), null) AS partition",
    )
    found = []
    for source, name in (("millstream", "sink-ours"), ("kafka", "sink-theirs")):
        sink = {"kafka.bootstrap.servers": address, "topic": name}
        frame.write.format(source).mode("append").options(**sink).save()
        _, read = rows(load(spark, address, subscribe=name, includeHeaders="true", kafka__isolation__level=COMMITTED))
        found.append(sorted(repr((row.partition, row.key, row.value, row.headers)) for row in read))
    assert len(found[0]) == 300
    return [f"sinks: {ours} is not {theirs}" for ours, theirs in zip(*found, strict=True) if ours != theirs]


def main(address: str, jars: str, checkpoints: str) -> None:
    spark = spark_session("comparison", "local[2]", **CONF, **{"spark.jars": jars})
    folder = Path(checkpoints)
    found = [*differences(spark, address, folder), *where_sinks_differ(spark, address)]
    by_batch, by_stream = through_their_sink(spark, address, folder / "sink")
    spark.stop()
    outcome = {
        "cases": len(CASES) + len(BOUNDED),
        "differences": found,
        "connector_sink": by_batch,
        "connector_stream_sink": by_stream,
    }
    sys.stdout.write(json.dumps(outcome) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
