"""Sinks end to end: a process of their own, a real broker, real Spark."""

import json
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place

from millstream.pipelines.connect.reports import Batch, Started
from tests.pipelines.connect.connectors import Connector
from tests.pipelines.records import Found, records_of
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess

pytestmark = pytest.mark.timeout(600)

JSON = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


def _committed(address: str, group: str, topic: str, partitions: int) -> list[int]:
    """A group's offsets, as a client that is not ours sees them."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": group, "log_level": 2})
    try:
        found = consumer.committed([Place(topic, number) for number in range(partitions)], 30)
        return [place.offset for place in found]
    finally:
        consumer.close()


def _config(topic: str, file: Path, letters: str) -> dict[str, str]:
    return {
        **JSON,
        "name": "to-files",
        "connector.class": "FileSink",
        "tasks.max": "2",
        "topics": topic,
        "file": str(file),
        "format": "json",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": letters,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
        "consumer.override.max.poll.records": "500",
    }


def test_a_topic_is_in_its_file_once_whatever_is_killed_and_bad_records_among_the_dead_letters(
    broker: BrokerProcess, topics: Topics, tmp_path: Path
) -> None:
    """A process is killed, a worker is; then offsets are altered, and a bad record is tolerated no more."""
    topic, letters = topics.new(2), "letters-of-files"
    values = [json.dumps({"n": number}) for number in range(4000)]
    values[1234] = "no JSON"
    for partition in (0, 1):
        topics.put(topic, values[partition:3000:2], partition, headers=[("from", b"test")])
    file = tmp_path / "out.jsonl"

    def position() -> int:
        return sum(offset["kafka_offset"] for offset in files.offsets.values())

    def numbers() -> list[int]:
        return [json.loads(line)["n"] for line in file.read_text().splitlines()]

    with Connector(broker.address, tmp_path, _config(topic, file, letters)) as files:
        files.wait(lambda: position() >= 500, "a batch")
        assert files.told(Started) == [Started(2)]
        files.kill()
        files.start()
        files.wait(lambda: files.records > 0 and files.kill_worker(), "a worker to kill")
        for partition in (0, 1):
            topics.put(topic, values[3000 + partition :: 2], partition)
        files.wait(lambda: position() == 4000, "the end", revives=True)
        files.stop()
        assert all(batch.topics == (topic,) for batch in files.told(Batch) if batch.records)
        assert sorted(numbers()) == [number for number in range(4000) if number != 1234]
        assert _committed(broker.address, "connect-to-files", topic, 2) == [2000, 2000]

        place = {"kafka_topic": topic, "kafka_partition": 1}
        files.start(
            generation=1,
            config={**files.job.config, "errors.tolerance": "none"},
            offsets=[{"partition": place, "offset": {"kafka_offset": 1998}}],
        )
        files.wait(lambda: files.records == 2, "two records again")
        assert numbers()[-2:] == [3997, 3999]
        topics.put(topic, ["{"])
        failed = files.fail()
    assert failed.is_final
    assert "VALUE_CONVERTER" in failed.message
    assert failed.trace.startswith("Traceback (most recent call last):")
    assert [path.name for path in (tmp_path / "connectors" / "to-files").iterdir() if path.is_dir()] == ["1"]
    assert _committed(broker.address, "connect-to-files", topic, 2) == [2000, 2000]
    first, last = records_of(broker.address, letters)
    assert (first.value, last.value) == (b"no JSON", b"{")
    _check_context(first, topic)


@pytest.mark.long
def test_a_stop_does_not_wait_for_the_time_of_the_next_batch(
    broker: BrokerProcess, topics: Topics, tmp_path: Path
) -> None:
    topic, file = topics.new(), tmp_path / "out.txt"
    topics.put(topic, ["one", "two"])
    config = {"name": "seldom", "connector.class": "FileSink", "topics": topic, "file": str(file)}
    with Connector(broker.address, tmp_path, {**config, "batch.interval.ms": "3600000"}) as seldom:
        seldom.wait(lambda: seldom.records == 2, "the first batch")
        told_s = time.monotonic()
        seldom.stop()
        assert time.monotonic() - told_s < 30
    assert file.read_text() == "one\ntwo\n"


def _check_context(letter: Found, topic: str) -> None:
    told = {name: (value or b"").decode() for name, value in letter.headers}
    assert told["from"] == "test"
    assert told["__connect.errors.topic"] == topic
    assert (told["__connect.errors.partition"], told["__connect.errors.offset"]) == ("0", "617")
    assert told["__connect.errors.connector.name"] == "to-files"
    assert told["__connect.errors.stage"] == "VALUE_CONVERTER"
