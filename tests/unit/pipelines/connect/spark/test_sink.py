"""A task of a sink, without Spark: records made of rows, refused ones among the dead letters."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from millstream.pipelines.connect.base import Batch, Sink
from millstream.pipelines.connect.errors import ConnectError, DataError
from millstream.pipelines.connect.job import Job
from millstream.pipelines.connect.record import Record
from millstream.pipelines.connect.spark.sink import Taking
from millstream.pipelines.connect.tolerance import Intolerable

BATCH = Batch("q", 0)
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Gathering(Sink):
    """Refuses what is odd, when all have come; leaves the rest where ``stops`` says so."""

    def write(self, records: Iterator[Record], batch: Batch) -> Any:
        if "stops" in self.config.given:
            return next(records)
        taken = list(records)
        for record in taken:
            if record.value == "odd":
                self.refuse(record, DataError("odd"))
        return [record for record in taken if record.value != "odd"]


def _job(**given: str) -> Job:
    config = {
        "name": "c",
        "connector.class": f"{__name__}.Gathering",
        "topics": "t",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        **{name.replace("__", "."): text for name, text in given.items()},
    }
    return Job("nowhere:1", config, "/nowhere")


def _rows(*values: bytes | None, first: int = 0, partition: int = 3) -> pa.RecordBatch:
    count = len(values)
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([b"k"] * count, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "topic": pa.array(["t"] * count),
            "partition": pa.array([partition] * count, pa.int32()),
            "offset": pa.array(range(first, first + count), pa.int64()),
            "timestamp": pa.array([1_700_000_000_123_000] * count, pa.timestamp("us", "UTC")),
            "timestampType": pa.array([0] * count, pa.int32()),
            "headers": pa.array([[{"key": "h", "value": b"1"}]] + [None] * (count - 1), HEADERS),
        }
    )


def test_a_sink_is_told_all_of_a_record() -> None:
    [[first, second]] = Taking(_job(), 0).take(iter([_rows(b"a", None)]), BATCH)
    assert (first.value, first.key, first.topic, first.origin) == ("a", b"k", "t", "t")
    assert (first.partition, first.offset, first.timestamp_ms) == (3, 0, 1_700_000_000_123)
    assert [(header.name, header.value) for header in first.headers] == [("h", 1)]
    assert (second.value, second.offset, second.headers) == (None, 1, [])


def test_a_sink_is_not_asked_where_nothing_is_left(tmp_path: Path) -> None:
    assert Taking(_job(), 0).take(iter(()), BATCH) == ()
    filtered = _job(transforms="none", transforms__none__type="org.apache.kafka.connect.transforms.Filter")
    assert Taking(filtered, 0).take(iter([_rows(b"a")]), BATCH) == ()


def test_what_a_sink_refuses_late_is_a_dead_letter_as_it_came() -> None:
    task = Taking(_job(errors__tolerance="all", errors__deadletterqueue__topic__name="dead"), 0)
    [taken] = task.take(iter([_rows(b"a", b"odd"), _rows(b"b", b"odd", first=2)]), BATCH)
    assert [record.value for record in taken] == ["a", "b"]
    letters = task.letters()
    assert [(letter.topic, letter.key, letter.value) for letter in letters] == [("dead", b"k", b"odd")] * 2
    assert task.letters() == []


def test_topic_partitions_that_a_task_reads_are_given_one_by_one_and_refused_by_their_own_offsets() -> None:
    task = Taking(_job(errors__tolerance="all", errors__deadletterqueue__topic__name="dead"), 0)
    whole = pa.Table.from_batches([_rows(b"a", b"b"), _rows(b"c", b"odd", partition=4)]).combine_chunks().to_batches()
    parts = task.take(iter([*whole, _rows(b"d", first=2, partition=4)]), BATCH)
    assert [[(each.partition, each.value) for each in part] for part in parts] == [
        [(3, "a"), (3, "b")],
        [(4, "c"), (4, "d")],
    ]
    assert [letter.value for letter in task.letters()] == [b"odd"]


def test_a_refusal_ends_it_where_none_is_tolerated() -> None:
    with pytest.raises(Intolerable, match="odd"):
        Taking(_job(), 0).take(iter([_rows(b"odd")]), BATCH)


def test_a_sink_that_leaves_records_is_found_out() -> None:
    with pytest.raises(ConnectError, match=r"Gathering\.write returned before it had taken all records"):
        Taking(_job(stops="yes"), 0).take(iter([_rows(b"a", b"b")]), BATCH)
