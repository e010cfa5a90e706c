"""Sinks end to end: a process of their own, a real broker, real Spark."""

import json
from pathlib import Path

from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place

from millstream.pipelines.connect.reports import Batch, Started
from tests.pipelines.connect.connectors import Connector
from tests.pipelines.records import records_of
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess

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


def test_a_topic_is_in_its_file_once_whatever_is_killed_and_bad_records_among_the_dead_letters(
    broker: BrokerProcess, topics: Topics, tmp_path: Path
) -> None:
    topic, letters = topics.new(2), "letters-of-files"
    values = [json.dumps({"n": number}) for number in range(4000)]
    values[1234] = "no JSON"
    for partition in (0, 1):
        topics.put(topic, values[partition:3000:2], partition, headers=[("from", b"test")])
    file = tmp_path / "out.jsonl"
    config = {
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

    def position() -> int:
        return sum(offset["kafka_offset"] for offset in files.offsets.values())

    with Connector(broker.address, tmp_path, config) as files:
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
    assert sorted(json.loads(line)["n"] for line in file.read_text().splitlines()) == [
        number for number in range(4000) if number != 1234
    ]
    assert _committed(broker.address, "connect-to-files", topic, 2) == [2000, 2000]
    [letter] = records_of(broker.address, letters)
    assert letter.value == b"no JSON"
    told = {name: (value or b"").decode() for name, value in letter.headers}
    assert told["from"] == "test"
    assert told["__connect.errors.topic"] == topic
    assert (told["__connect.errors.partition"], told["__connect.errors.offset"]) == ("0", "617")
    assert told["__connect.errors.connector.name"] == "to-files"
    assert told["__connect.errors.stage"] == "VALUE_CONVERTER"


def test_offsets_that_were_altered_begin_a_new_generation_and_a_bad_record_ends_it_where_none_is_tolerated(
    broker: BrokerProcess, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.new()
    topics.put(topic, ["1", "2", "3"])
    config = {**JSON, "name": "altered", "connector.class": "FileSink", "topics": topic, "file": str(tmp_path / "out")}
    with Connector(broker.address, tmp_path, config) as files:
        files.wait(lambda: files.records == 3, "three records")
        files.stop()
        place = {"kafka_topic": topic, "kafka_partition": 0}
        files.start(generation=1, offsets=[{"partition": place, "offset": {"kafka_offset": 1}}])
        files.wait(lambda: files.records == 2, "two of them again")
        assert (tmp_path / "out").read_text() == "1\n2\n3\n2\n3\n"
        topics.put(topic, ["{"])
        failed = files.fail()
    assert failed.is_final
    assert "VALUE_CONVERTER" in failed.message
    assert failed.trace.startswith("Traceback (most recent call last):")
    assert [path.name for path in (tmp_path / "connectors" / "altered").iterdir()] == ["1"]
    assert _committed(broker.address, "connect-altered", topic, 1) == [3]
