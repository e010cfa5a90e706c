"""Apache Kafka's own topics and log files through the same source: a driver's and a worker's code, without Spark."""

import time
from pathlib import Path

import pytest

from millstream.pipelines.spark.options import batch_options
from millstream.pipelines.spark.source import BatchReader, read_task
from tests.compatibility import apache_kafka
from tests.compatibility.apache_kafka import ApacheKafka
from tests.pipelines.topics import Topics

THEN_MS = 1_700_000_000_000
MARKERS_TIMEOUT_S = 30


def values(**options: str) -> list[bytes]:
    """What a batch with these options gives, in order."""
    tasks = BatchReader(batch_options(options)).partitions()
    rows = [row for task in tasks for table in read_task(task) for row in table.to_pylist()]
    return [row["value"] for row in sorted(rows, key=lambda row: (row["partition"], row["offset"]))]


def test_topics_and_log_files_of_apache_kafka_are_read(tmp_path: Path) -> None:
    if (reason := apache_kafka.missing()) is not None:
        pytest.skip(reason)
    everything = [b"%d" % number for number in range(500)]
    with ApacheKafka(tmp_path / "kafka") as kafka:
        topics = Topics(kafka.bootstrap)
        topic = topics.new(2)
        topics.put(topic, everything[:300], 0, timestamp_ms=THEN_MS)
        topics.put(topic, everything[300:], 1, timestamp_ms=THEN_MS)
        with topics.transaction("given-up", topic, ["no"]) as producer:
            producer.abort_transaction(30)
        with topics.transaction("kept", topic, ["yes"]) as producer:
            producer.commit_transaction(30)
        committed = {"subscribe": topic, "kafka.isolation.level": "read_committed"}
        expected = [*everything[:300], b"yes", *everything[300:]]
        asked = {"kafka.bootstrap.servers": kafka.bootstrap}
        deadline_s = time.monotonic() + MARKERS_TIMEOUT_S
        while len(found := values(**asked, **committed)) < len(
            expected
        ):  # Kafka answers before its markers are written.
            assert time.monotonic() < deadline_s, found
            time.sleep(0.05)
        assert found == expected
        moments = {"startingTimestamp": str(THEN_MS + 250), "endingTimestamp": str(THEN_MS + 260)}
        assert values(**asked, assign=f'{{"{topic}": [0]}}', **moments) == everything[250:260]
    (folder,) = {found.parent.parent for found in tmp_path.rglob(f"{topic}-0/*.log")}
    assert values(path=str(folder), **committed) == expected
