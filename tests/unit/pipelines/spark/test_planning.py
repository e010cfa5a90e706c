"""Which offsets a micro-batch reads, and how they are shared out among tasks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.model.ids import TopicPartition
from millstream.pipelines.spark.planning import (
    IncompatibleCheckpoint,
    Range,
    admit,
    from_document,
    losses,
    packed,
    ranges,
    resumed,
    split,
    to_document,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
A10 = TopicPartition("a", 10)


def test_offsets_are_written_one_way_whatever_their_order() -> None:
    document = to_document({B0: 3, A10: 2, A1: 1})
    assert list(document) == ["a", "b"]
    assert list(document["a"].items()) == [("1", 1), ("10", 2)]
    assert from_document(document) == {A1: 1, A10: 2, B0: 3}


@pytest.mark.parametrize("document", [{"offset": 3}, ["a"], {"a": {"x": 1}}, {"a": {"0": "1"}}, {"a": {"0": -1}}, None])
def test_a_checkpoint_of_another_source_is_refused_by_its_content(document: object) -> None:
    with pytest.raises(IncompatibleCheckpoint, match="checkpointLocation"):
        from_document(document)


def test_each_partition_gives_its_share_of_what_is_admitted() -> None:
    assert admit({A0: 0, A1: 100}, {A0: 300, A1: 200}, 100) == {A0: 75, A1: 125}


def test_a_small_partition_beside_a_large_one_still_moves() -> None:
    assert admit({A0: 0, A1: 0}, {A0: 1_000_000, A1: 1}, 10) == {A0: 9, A1: 1}


def test_everything_is_admitted_when_there_is_no_more_than_that() -> None:
    assert admit({A0: 5}, {A0: 15}, 10) == {A0: 15}


@given(
    st.dictionaries(st.sampled_from([A0, A1, A10, B0]), st.tuples(st.integers(0, 50), st.integers(0, 500)), min_size=1),
    st.integers(1, 600),
)
def test_admission_ends_and_never_overshoots_by_more_than_the_partitions(
    spans: dict[TopicPartition, tuple[int, int]], records_max: int
) -> None:
    starts = {tp: start for tp, (start, _) in spans.items()}
    ends = {tp: start + size for tp, (start, size) in spans.items()}
    turns = 0
    while starts != ends:
        admitted = admit(starts, ends, records_max)
        taken = sum(admitted[tp] - starts[tp] for tp in ends)
        assert 0 < taken <= records_max + len(ends)
        assert all(starts[tp] <= admitted[tp] <= ends[tp] for tp in ends)
        starts, turns = admitted, turns + 1
        assert turns <= 2500


def test_ranges_leave_out_what_is_empty() -> None:
    assert ranges({A0: 3, A1: 5}, {A0: 7, A1: 5, B0: 9}) == [Range(A0, 3, 7)]


@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=5),
    st.integers(0, 40),
    st.integers(0, 50),
)
def test_splitting_keeps_every_offset_once(sizes: list[int], tasks_min: int, records_max: int) -> None:
    whole = [Range(TopicPartition("t", number), 10, 10 + size) for number, size in enumerate(sizes)]
    pieces = split(whole, tasks_min, records_max)
    offsets = [(piece.partition, offset) for piece in pieces for offset in range(piece.start, piece.stop)]
    assert offsets == [(piece.partition, offset) for piece in whole for offset in range(piece.start, piece.stop)]
    assert len(pieces) >= min(tasks_min, sum(sizes))
    assert not records_max or max(map(len, pieces)) <= records_max


def test_the_largest_ranges_are_split_first() -> None:
    pieces = split([Range(A0, 0, 900), Range(A1, 0, 100)], tasks_min=4)
    assert [(piece.partition, len(piece)) for piece in pieces] == [(A0, 300), (A0, 300), (A0, 300), (A1, 100)]


@pytest.mark.parametrize(
    ("starts", "earliest", "latest", "said"),
    [
        ({A0: 5}, {}, {}, "a-0 is gone"),
        ({A0: 5}, {A0: 8}, {A0: 20}, "a-0 starts at offset 8"),
        ({A0: 5}, {A0: 0}, {A0: 3}, "a-0 ends at offset 3"),
        ({A0: 5}, {A0: 0, A1: 4}, {A0: 9, A1: 6}, "a-1 is new and starts at offset 4"),
    ],
)
def test_every_way_to_lose_records_is_told_with_its_partition(
    starts: dict[TopicPartition, int],
    earliest: dict[TopicPartition, int],
    latest: dict[TopicPartition, int],
    said: str,
) -> None:
    (only,) = losses(starts, earliest, latest)
    assert said in only


def test_reading_goes_on_where_it_stopped_and_at_the_first_record_of_what_is_new() -> None:
    earliest = {A0: 0, A1: 7, B0: 0}
    assert resumed({A0: 5, A1: 3, A10: 1}, earliest, {A0: 9, A1: 9, B0: 4}) == {A0: 5, A1: 7, B0: 0}
    assert list(losses({A0: 5}, {A0: 5, B0: 0}, {A0: 5, B0: 4})) == []


def test_small_ranges_are_packed_in_their_order_and_a_large_one_stays_alone() -> None:
    pieces = [Range(A0, 0, 4), Range(A1, 7, 13), Range(A10, 0, 50), Range(B0, 1, 2)]
    assert packed(pieces, 10) == [pieces[:2], [pieces[2]], [pieces[3]]]
    assert packed([], 10) == []


@given(st.lists(st.integers(1, 30)), st.integers(1, 40))
def test_packs_hold_every_range_once_and_none_has_too_many_records_but_a_single_one(
    sizes: list[int], records_max: int
) -> None:
    pieces = [Range(TopicPartition("a", number), 5, 5 + size) for number, size in enumerate(sizes)]
    packs = packed(pieces, records_max)
    assert [piece for pack in packs for piece in pack] == pieces
    assert all(len(pack) == 1 or sum(map(len, pack)) <= records_max for pack in packs)


def test_nothing_is_not_split() -> None:
    assert split([], 4) == []
    assert split([], 4, 10) == []
