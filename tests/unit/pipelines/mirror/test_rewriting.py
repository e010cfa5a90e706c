"""Batches passed on: the same records, under another producer, and nothing that a reader is not given."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.model.batch import HEADER_BYTES, checked_header, header_at, stamp
from millstream.model.compression import CODEC_IDS
from millstream.model.records import ABORT, COMMIT, Record, decode_batch, encode_batch, encode_marker
from millstream.pipelines.mirror.rewriting import BrokenBatch, Outgoing, Rewritten, halves, rewritten, sign
from millstream.pipelines.mirror.translation import Run

NOW_MS = 1_700_000_000_000


def records_from(first: int, count: int) -> list[Record]:
    return [
        Record(offset, NOW_MS + offset, b"k%d" % offset, b"v" * (offset % 50), (("h", b"x"),))
        for offset in range(first, first + count)
    ]


def stored(records: list[Record], **how: int | bool) -> bytearray:
    """A batch as it lies in its source's log."""
    return encode_batch(records, base_offset=records[0].offset, leader_epoch=4, keep_offsets=True, **how)  # type: ignore[arg-type]


def passed(
    *batches: bytearray, start: int = 0, stop: int = 1 << 40, aborted: tuple[tuple[int, int], ...] = ()
) -> Rewritten:
    return rewritten(memoryview(bytearray(b"".join(batches))), list(aborted), start, stop, "t-0")


def contents(batches: list[Outgoing]) -> list[Record]:
    """What the target's reader finds, with the offsets that the source had."""
    found = []
    for outgoing in batches:
        offsets = [offset for first, count in outgoing.spans for offset in range(first, first + count)]
        found += [
            record._replace(offset=offset) for record, offset in zip(decode_batch(outgoing.batch), offsets, strict=True)
        ]
    return found


@pytest.mark.parametrize("compression", CODEC_IDS.values())
def test_a_whole_batch_is_passed_on_without_a_look_at_its_records(compression: int) -> None:
    batch = stored(records_from(10, 5), compression=compression)
    [outgoing], position = passed(batch)
    assert bytes(outgoing.batch[HEADER_BYTES:]) == bytes(batch[HEADER_BYTES:])
    assert (outgoing.records, outgoing.spans, position) == (5, ((10, 5),), 15)


def test_a_signed_batch_is_one_that_a_broker_takes_from_that_producer() -> None:
    [outgoing], _ = passed(stored(records_from(10, 5), producer_id=3, producer_epoch=1, base_sequence=44))
    sign(outgoing.batch, 77, 2, 9)
    header = checked_header(outgoing.batch)
    assert (header.base_offset, header.leader_epoch, header.is_transactional) == (0, -1, True)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 2, 9)
    assert contents([outgoing]) == records_from(10, 5)


def test_a_batch_with_holes_is_encoded_again_and_its_runs_are_told() -> None:
    everything = records_from(10, 8)
    left = [everything[number] for number in (0, 1, 4, 7)]
    batch = stored(left)
    [outgoing], position = passed(batch)
    sign(outgoing.batch, 77, 2, 0)
    assert checked_header(outgoing.batch).record_count == 4
    assert contents([outgoing]) == left
    assert list(outgoing.runs(100)) == [Run(10, 100, 2), Run(14, 102, 1), Run(17, 103, 1)]
    assert position == 18


def test_what_lies_over_the_edges_is_cut() -> None:
    batches, position = passed(stored(records_from(0, 10)), stored(records_from(10, 10)), start=4, stop=13)
    assert contents(batches) == records_from(4, 9)
    assert position == 13
    assert passed(stored(records_from(0, 10)), start=0, stop=0) == ([], 0)


def test_markers_and_aborted_records_are_left_out_and_committed_ones_are_not() -> None:
    def transaction(first: int, producer: int) -> bytearray:
        return stored(
            records_from(first, 3), producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True
        )

    def marker(kind: int, offset: int, producer: int) -> bytearray:
        return encode_marker(kind, producer_id=producer, producer_epoch=0, timestamp=NOW_MS, base_offset=offset)

    batches, position = passed(
        transaction(0, 1), transaction(3, 2), marker(ABORT, 6, 1), marker(COMMIT, 7, 2), aborted=((1, 0),)
    )
    assert contents(batches) == records_from(3, 3)
    assert position == 8


def test_a_brokers_time_becomes_the_records_own() -> None:
    [outgoing], _ = passed(stored(records_from(0, 3), append_time_ms=NOW_MS + 99))
    assert [record.timestamp for record in decode_batch(outgoing.batch)] == [NOW_MS + 99] * 3
    assert not header_at(outgoing.batch).attributes & 0x08


def test_a_damaged_batch_is_not_passed_on() -> None:
    batch = stored(records_from(0, 3))
    batch[-1] ^= 1
    with pytest.raises(BrokenBatch, match="t-0: the batch at offset 0 is damaged"):
        passed(batch)


def test_a_cut_last_batch_is_left_for_the_next_fetch() -> None:
    assert passed(stored(records_from(0, 3)), stored(records_from(3, 3))[:-1])[1] == 3


def test_a_batch_too_large_is_two_with_the_same_records() -> None:
    [outgoing], _ = passed(stored(records_from(10, 7)))
    sign(outgoing.batch, 1, 0, 0)
    one, other = halves(outgoing)
    assert contents([one, other]) == records_from(10, 7)
    assert (one.records, other.records) == (3, 4)


@given(
    st.lists(st.tuples(st.integers(1, 6), st.sets(st.integers(0, 5)), st.booleans()), max_size=12),
    st.integers(0, 40),
    st.integers(0, 60),
)
def test_every_record_between_start_and_stop_is_passed_on_once(
    shapes: list[tuple[int, set[int], bool]], start: int, stop: int
) -> None:
    batches, kept, first = [], [], 0
    for count, removed, has_codec in shapes:
        everything = records_from(first, count)
        left = [record for number, record in enumerate(everything) if number not in removed]
        if left:
            batch = stored(left, compression=CODEC_IDS["gzip"] if has_codec else 0)
            stamp(batch, 0, left[0].offset, 1)
            batches.append(batch)
            kept += left
        first += count
    found, position = passed(*batches, start=start, stop=stop)
    assert contents(found) == [record for record in kept if start <= record.offset < stop]
    assert position <= max(start, stop)
    for outgoing in found:
        sign(outgoing.batch, 5, 0, 0)
        checked_header(outgoing.batch)
