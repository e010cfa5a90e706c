"""What Spark's Python workers hold is bounded by what a micro-batch may read, not by what waits to be read."""

from pathlib import Path

from pyspark.sql import SparkSession

from tests.pipelines.processes import children_of, command_of
from tests.pipelines.tables import RUN_TIMEOUT_S, load_stream
from tests.pipelines.topics import Topics

RECORD_BYTES = 2_000
BATCH_RECORDS = 2_000
#: Micro-batches of a small and of a large backlog, which is 80 MB.
SMALL, LARGE = 2, 20
#: How much more the large one may take, for allocators are not exact: far less than its backlog.
MORE_BYTES = 24_000_000


def _workers(spark: SparkSession) -> list[int]:
    """The Python processes of this session: Spark's daemons and what they forked."""
    pids = [int(spark._jvm.java.lang.ProcessHandle.current().pid())]  # type: ignore[union-attr]
    for pid in pids:
        pids += children_of(pid)
    return [pid for pid in pids if "pyspark" in command_of(pid) and "java" not in command_of(pid).split("\0")[0]]


def _peak_bytes(spark: SparkSession) -> int:
    """The most that one of them ever held since they were told to forget."""
    peaks = [Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0] for pid in _workers(spark)]
    return 1024 * max(map(int, peaks))


def _copy(spark: SparkSession, topics: Topics, batches: int, folder: Path) -> int:
    """Through source and sink; the peak while it went."""
    source, target = topics.new(), topics.new()
    topics.put(source, [b"x" * RECORD_BYTES] * (batches * BATCH_RECORDS))
    for pid in _workers(spark):
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # Forget the peak of whatever ran before.
    stream = load_stream(
        spark, topics.address, subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger=BATCH_RECORDS
    )
    writer = stream.select("value").writeStream.format("millstream").option("kafka.bootstrap.servers", topics.address)
    query = writer.option("topic", target).option("checkpointLocation", str(folder)).trigger(availableNow=True).start()
    assert query.awaitTermination(RUN_TIMEOUT_S)
    assert [progress["numInputRows"] for progress in query.recentProgress][:batches] == [BATCH_RECORDS] * batches
    return _peak_bytes(spark)


def test_a_large_backlog_takes_no_more_memory_than_a_small_one(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    small = _copy(spark, topics, SMALL, tmp_path / "small")
    large = _copy(spark, topics, LARGE, tmp_path / "large")
    assert LARGE * BATCH_RECORDS * RECORD_BYTES > 3 * MORE_BYTES
    assert large < small + MORE_BYTES
