"""Where a sink's topics are read from when its config names others than before, on real log files."""

from pathlib import Path
from typing import Any

import pytest

from millstream.model.records import Record, encode_batch
from millstream.pipelines.connect.spark.gate import Gate
from millstream.pipelines.connect.spark.sink import TopicsReader
from millstream.pipelines.spark.options import stream_options
from millstream.pipelines.spark.source import read_task


def put(folder: Path, topic: str, count: int, first: int = 0) -> None:
    file = folder / f"{topic}-0" / f"{0:020d}.log"
    file.parent.mkdir(exist_ok=True)
    with file.open("ab") as log:
        log.write(encode_batch([Record(value=topic.encode())] * count, base_offset=first))


def reader(folder: Path, topics: str, told: str = "{}", **more: str) -> TopicsReader:
    given = {"path": str(folder), "subscribe": topics, "startingOffsets": told, "failOnDataLoss": "true", **more}
    return TopicsReader(stream_options(given), Gate(str(folder)))


def planned(stream: TopicsReader, start: dict[str, Any]) -> dict[str, Any]:
    return stream.latestOffset(start, stream.getDefaultReadLimit())


def offsets(stream: TopicsReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[str, int]]:
    batches = [batch for task in stream.partitions(start, end) for batch in read_task(task)]
    return [pair for it in batches for pair in zip(it["topic"].to_pylist(), it["offset"].to_pylist(), strict=True)]


def test_a_topic_that_is_named_anew_begins_where_it_is_told_to(tmp_path: Path) -> None:
    """Where the sink's group was when it was read before, for instance."""
    put(tmp_path, "a", 3)
    put(tmp_path, "b", 5)
    told, start = '{"a": {"0": 0}, "b": {"0": 4}}', {"a": {"0": 2}}
    stream = reader(tmp_path, "a,b", told)
    end = planned(stream, start)
    assert end == {"a": {"0": 3}, "b": {"0": 5}}
    assert offsets(stream, start, end) == [("a", 2), ("b", 4)]
    # So it does when that batch comes again, in another process.
    assert offsets(reader(tmp_path, "a,b", told), start, end) == [("a", 2), ("b", 4)]


def test_a_topic_that_comes_while_it_runs_is_read_from_its_beginning(tmp_path: Path) -> None:
    """Even one that takes the place of another, of which the sink was told where to begin."""
    put(tmp_path, "a", 3)
    stream = reader(tmp_path, "a,b", '{"a": {"0": 1}, "b": {"0": 2}}', failOnDataLoss="false")
    first = planned(stream, {"a": {"0": 1}})
    assert first == {"a": {"0": 3}}
    put(tmp_path, "a", 1, first=3)
    put(tmp_path, "b", 4)
    second = planned(stream, first)
    assert offsets(stream, first, second) == [("a", 3), *(("b", number) for number in range(4))]


@pytest.mark.parametrize("which", [{"topics": "b"}, {"topics": "", "pattern": "b.*"}], ids=["by name", "by pattern"])
def test_a_topic_that_is_named_no_more_is_not_lost(tmp_path: Path, which: dict[str, str]) -> None:
    put(tmp_path, "a", 3)
    put(tmp_path, "b", 2)
    given = {"path": str(tmp_path), "startingOffsets": "{}", "failOnDataLoss": "true"}
    named = {"subscribe": which["topics"]} if which["topics"] else {"subscribePattern": which["pattern"]}
    stream = TopicsReader(stream_options({**given, **named}), Gate(str(tmp_path)))
    start = {"a": {"0": 1}, "b": {"0": 1}}
    end = planned(stream, start)
    assert end == {"b": {"0": 2}}
    assert offsets(stream, start, end) == [("b", 1)]
