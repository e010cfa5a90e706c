"""What is told of batches, from Spark's progress of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.pipelines.connect.job import Job, Place
from millstream.pipelines.connect.places import document_of
from millstream.pipelines.connect.reports import Batch, Offsets, Started
from millstream.pipelines.connect.spark import checkpoint, following
from millstream.pipelines.connect.spark.following import SinkFollowing, SourceFollowing

A: Place = {"partition": {"name": "a"}, "offset": {"n": 3}}
B: Place = {"partition": {"name": "b"}, "offset": {"n": 3}}


def _progress(number: int, rows: int, end: Any, latest: Any = None) -> dict[str, Any]:
    """As Spark tells it: offsets may be JSON, or text of JSON."""
    return {
        "id": "q",
        "name": "c",
        "batchId": number,
        "numInputRows": rows,
        "durationMs": {"triggerExecution": 12},
        "sources": [{"endOffset": end, "latestOffset": latest}],
    }


@pytest.mark.parametrize("offsets_topic", ["", "offsets"])
def test_a_source_tells_what_moved_and_counts_its_own_records_alone(tmp_path: Path, offsets_topic: str) -> None:
    job = Job("nowhere:1", {"name": "c", "tasks.max": "2"}, str(tmp_path), offsets_topic=offsets_topic)
    Path(job.folder).mkdir(parents=True)
    (Path(job.folder) / "topics.json").write_text('["t"]')
    source = SourceFollowing(job, document_of([A]), 1)
    assert source.begin() == [Started(1), Offsets((A,))]
    told = source.advance(_progress(4, 10, json.dumps(document_of([A, B]))))
    assert told == [Started(2), Offsets((B,)), Batch(4, 9 if offsets_topic else 10, 12, ("t",))]
    assert source.advance(_progress(5, 0, document_of([A, B]))) == [Batch(5, 0, 12, ("t",))]


def test_a_sink_tells_and_commits_what_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    committed: list[dict[TopicPartition, int]] = []
    monkeypatch.setattr(following, "commit_group", lambda here, job, offsets: committed.append(offsets))
    zero, one = TopicPartition("t", 0), TopicPartition("t", 1)
    here: Any = None
    sink = SinkFollowing(here, Job("nowhere:1", {"name": "c"}, "/nowhere"), {zero: 1, one: 2}, 2)
    assert sink.begin()[0] == Started(1)
    told = sink.advance(_progress(0, 4, {"t": {"0": 1, "1": 6}}, {"t": {"0": 1, "1": 9}}))
    place: Place = {"partition": {"kafka_topic": "t", "kafka_partition": 1}, "offset": {"kafka_offset": 6}}
    assert told == [Offsets((place,)), Batch(0, 4, 12, ("t",), 3)]
    assert committed == [{zero: 1, one: 2}, {one: 6}]


def test_a_group_that_cannot_be_committed_to_does_not_stop_a_sink(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ProtocolError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    monkeypatch.setattr(following, "commit_group", refuse)
    here: Any = None
    sink = SinkFollowing(here, Job("nowhere:1", {"name": "c"}, "/nowhere"), {}, 0)
    assert len(sink.advance(_progress(0, 4, {"t": {"0": 4}}))) == 2


def test_a_checkpoint_is_read_up_to_the_last_batch_that_was_committed(tmp_path: Path) -> None:
    assert checkpoint.query_id(str(tmp_path)) is None
    assert checkpoint.committed(str(tmp_path)) is None
    folder = tmp_path / "checkpoint"
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"abc"}')
    assert checkpoint.committed(str(tmp_path)) is None
    for number in range(12):
        (folder / "offsets" / str(number)).write_text(f'v1\n{{"batchTimestampMs":1}}\n{{"n":{number}}}')
        if number < 11:
            (folder / "commits" / str(number)).write_text("v1\n{}")
    (folder / "commits" / ".11.crc").write_text("")
    assert checkpoint.query_id(str(tmp_path)) == "abc"
    assert checkpoint.committed(str(tmp_path)) == {"n": 10}
