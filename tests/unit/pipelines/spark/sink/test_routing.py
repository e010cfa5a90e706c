import pyarrow as pa
import pytest

from millstream.client.partitioner import partition_of
from millstream.model.ids import TopicPartition
from millstream.pipelines.spark.sink.encoding import Rows
from millstream.pipelines.spark.sink.routing import Chunk, Router, RowError

LARGE = 1 << 30


def _routed(
    chunk: Chunk, count: int = 3, *, batch_bytes: int = LARGE, record_bytes_max: int = LARGE
) -> list[tuple[TopicPartition, list[bytes]]]:
    router = Router(0, batch_bytes, record_bytes_max)
    counts = dict.fromkeys(chunk.topics("t"), count)
    return [(tp, rows.value.to_pylist()) for tp, rows in router.batches(chunk, "t", counts)]


def test_a_row_goes_to_its_partition_else_to_its_keys_else_anywhere() -> None:
    key = pa.array([b"k", b"k", None, b"k"])
    chunk = Chunk(Rows(pa.array([b"a", b"b", b"c", b"d"]), key), partition=pa.array([2, None, None, 1], pa.int32()))
    own = partition_of(b"k", 3)
    found: dict[int, list[bytes]] = {}
    for tp, values in _routed(chunk):
        found.setdefault(tp.partition, []).extend(values)
    expected: dict[int, list[bytes]] = {}
    for partition, value in ((0, b"c"), (own, b"b"), (1, b"d"), (2, b"a")):
        expected.setdefault(partition, []).append(value)
    assert {partition: sorted(values) for partition, values in found.items()} == {
        partition: sorted(values) for partition, values in expected.items()
    }


def test_rows_that_may_go_anywhere_fill_batches_in_turn() -> None:
    values = [b"%03d" % number for number in range(90)]
    found = _routed(Chunk(Rows(pa.array(values))), batch_bytes=30 * (3 + 24))
    assert found == [(TopicPartition("t", part), values[30 * part : 30 * part + 30]) for part in range(3)]


def test_a_few_rows_make_one_batch_and_the_next_few_go_elsewhere() -> None:
    router = Router(1, 900_000, LARGE)
    chunk = Chunk(Rows(pa.array([b"a", b"b"])))
    turns = [tp.partition for _ in range(4) for tp, _ in router.batches(chunk, "t", {"t": 3})]
    assert turns == [1, 2, 0, 1]


def test_rows_are_parted_by_topic_in_their_order() -> None:
    chunk = Chunk(Rows(pa.array([b"1", b"2", b"3"])), topic=pa.array(["x", "y", "x"]))
    assert _routed(chunk, 1) == [(TopicPartition("x", 0), [b"1", b"3"]), (TopicPartition("y", 0), [b"2"])]


def test_a_row_without_a_topic_is_told() -> None:
    with pytest.raises(RowError, match="row 1 of 2 has no topic"):
        _routed(Chunk(Rows(pa.array([b"1", b"2"])), topic=pa.array(["x", None])))


@pytest.mark.parametrize("partition", [3, -1])
def test_a_partition_that_is_not_there_is_told(partition: int) -> None:
    chunk = Chunk(Rows(pa.array([b"1"])), partition=pa.array([partition], pa.int32()))
    with pytest.raises(RowError, match=rf"partition {partition}: topic 't' has partitions 0 to 2"):
        _routed(chunk)


def test_a_record_that_is_too_large_is_told_before_anything_is_sent() -> None:
    with pytest.raises(RowError, match=r"larger than kafka\.max\.request\.size=100"):
        _routed(Chunk(Rows(pa.array([b"x", b"x" * 100]))), record_bytes_max=100)
