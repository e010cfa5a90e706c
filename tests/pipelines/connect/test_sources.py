"""Sources end to end: a process of their own, a real broker, real Spark."""

import json
from pathlib import Path

import pytest

from millstream.pipelines.connect.reports import Batch, Started
from tests.pipelines.connect.connectors import Connector
from tests.pipelines.records import records_of, values_of
from tests.pipelines.topics import Topics
from tests.system.broker_process import BrokerProcess

pytestmark = pytest.mark.timeout(600)


def _append(file: Path, numbers: range) -> None:
    with file.open("a") as lines:
        lines.writelines(f"{number}\n" for number in numbers)


@pytest.mark.long
def test_files_are_in_their_topic_once_whatever_is_killed(
    broker: BrokerProcess, topics: Topics, tmp_path: Path
) -> None:
    """Files grow and come, the process is killed in the middle of a batch, a worker is, and it is stopped in order."""
    topic, offsets = topics.new(2), topics.new(1, settings={"cleanup.policy": "compact"})
    folder = tmp_path / "in"
    folder.mkdir()
    first, second = folder / "a.txt", folder / "b.txt"
    _append(first, range(3000))
    config = {
        "name": "files",
        "connector.class": "FileSource",
        "tasks.max": "2",
        "file": str(folder),
        "topic": topic,
        "batch.max.rows": "1000",
        "poll.interval.ms": "50",
    }

    def position(file: Path) -> int:
        offset = files.offsets.get(json.dumps({"filename": str(file)}, separators=(",", ":")))
        return offset["position"] if offset else 0

    def are_read() -> bool:
        return all(position(file) == file.stat().st_size for file in (first, second) if file.exists())

    with Connector(broker.address, tmp_path, config, offsets_topic=offsets) as files:
        files.wait(lambda: position(first) > 0, "a batch")
        assert files.told(Started) == [Started(1)]
        files.kill()
        _append(second, range(3000, 6000))
        files.start()
        files.wait(lambda: position(second) > 0 and files.kill_worker(), "a worker to kill")
        files.wait(are_read, "the end of both files", revives=True)
        _append(first, range(6000, 6500))
        files.wait(are_read, "what was appended", revives=True)
        files.stop()
        assert {name for batch in files.told(Batch) for name in batch.topics} == {topic}
        told = files.offsets
    assert sorted(map(int, filter(None, values_of(broker.address, topic)))) == list(range(6500))
    kept = {each.key: each.value for each in records_of(broker.address, offsets)}
    name = {file: f'["files",{{"filename":"{file}"}}]'.encode() for file in (first, second)}
    assert {key: json.loads(value or b"null") for key, value in kept.items()} == {
        name[file]: {"position": file.stat().st_size} for file in (first, second)
    }
    assert len(told) == 2


@pytest.mark.long
def test_a_generator_keeps_its_count_through_kills(broker: BrokerProcess, topics: Topics, tmp_path: Path) -> None:
    topic = topics.new(2)
    config = {
        "name": "made",
        "connector.class": "GeneratorSource",
        "topic": topic,
        "count": "20000",
        "rate": "500",
        "generators": "2",
        "tasks.max": "2",
        "fields": '{"id": "sequence", "word": "word"}',
        "key": "id",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    with Connector(broker.address, tmp_path, config) as made:
        for _ in range(4):
            made.wait(lambda: len(made.told(Batch)) > 2, "some batches", revives=True)
            made.kill()
        made.wait(lambda: sum(each["count"] for each in made.offsets.values()) == 20000, "the end", revives=True)
    found = [json.loads(each.value or b"") for each in records_of(broker.address, topic)]
    assert sorted(each["id"] for each in found) == list(range(20000))
