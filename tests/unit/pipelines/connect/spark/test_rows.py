"""Records as Arrow's columns."""

from millstream.pipelines.connect.letters import Raw
from millstream.pipelines.connect.spark.rows import CHUNK_BYTES, CHUNK_ROWS, chunks


def test_records_come_in_chunks_of_some_rows_or_bytes() -> None:
    small = [Raw("t", None, b"x")] * (CHUNK_ROWS + 1)
    assert [chunk.num_rows for chunk in chunks(small)] == [CHUNK_ROWS, 1]
    large = [Raw("t", b"k", b"x" * CHUNK_BYTES)] * 2
    assert [chunk.num_rows for chunk in chunks(large)] == [1, 1]
    assert list(chunks([])) == []


def test_rows_have_what_records_have() -> None:
    [chunk] = chunks([Raw("t", b"k", None, [("h", b"1"), ("g", None)], 2, None, 5), Raw("u", None, b"v")])
    first, second = chunk.to_pylist()
    assert first == {
        "topic": "t",
        "partition": 2,
        "key": b"k",
        "value": None,
        "headers": [{"key": "h", "value": b"1"}, {"key": "g", "value": None}],
        "timestamp_ms": 5,
    }
    assert (second["partition"], second["headers"], second["timestamp_ms"]) == (None, None, None)
