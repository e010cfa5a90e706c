"""What a lone task holds in hand, and what it does not write with its decision."""

import pyarrow as pa
import pytest

from millstream.client.producing import ProducerId
from millstream.pipelines.spark.sink.coordinator import Held
from millstream.pipelines.spark.sink.encoding import Rows
from millstream.pipelines.spark.sink.lone import can_go_with_decision, held_of, in_hand, note_of
from millstream.pipelines.spark.sink.options import sink_options
from millstream.pipelines.spark.sink.routing import Chunk

GIVEN = {"kafka.bootstrap.servers": "here:9092"}


def _batches(count: int) -> list[pa.RecordBatch]:
    return [pa.record_batch({"value": pa.array([b"%03d" % number])}) for number in range(count)]


@pytest.mark.parametrize(("count", "is_whole"), [(0, True), (1, True), (4, True), (5, False), (20, False)])
def test_rows_are_held_as_long_as_they_are_few_and_none_is_lost(count: int, is_whole: bool) -> None:
    batches = _batches(count)
    held, rows = in_hand(iter(batches), 4 * _batches(1)[0].nbytes)
    assert held == (batches if is_whole else None)
    assert list(rows) == batches


def test_nothing_goes_with_a_decision_into_the_topic_of_decisions() -> None:
    values = Rows(pa.array([b"a", b"b"]), None, None, None)
    named = Chunk(values, topic=pa.array(["orders", "__millstream_sink_decisions"]))
    assert not can_go_with_decision(sink_options(GIVEN), named)
    assert can_go_with_decision(sink_options({**GIVEN, "decisionsTopic": "mine"}), named)
    assert can_go_with_decision(sink_options({**GIVEN, "topic": "orders"}), Chunk(values))
    assert not can_go_with_decision(sink_options({**GIVEN, "topic": "mine", "decisionsTopic": "mine"}), Chunk(values))


def test_a_fence_is_read_from_a_note_as_it_was_written_and_from_nothing_else() -> None:
    held = Held(ProducerId(7, 3), 12, 1_700_000_000_000)
    assert held_of(note_of(held)) == held
    assert held_of(note_of(held), attempt=1) == held._replace(looked_ms=0), "it is to look for what was left open"
    assert [held_of(note) for note in (None, [], [1, 2, 3], {"a": 1}, ["x", 1, 2, 3], 5)] == [None] * 6
