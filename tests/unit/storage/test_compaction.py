"""Compaction by example: what stays, what goes, and when."""

import pickle
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from millstream.model.batch import DELETE_HORIZON, header_at
from millstream.model.compression import CODECS
from millstream.model.records import ABORT, COMMIT, Record, encode_batch, encode_marker
from millstream.storage.compaction import Throttle, TooManyKeys
from millstream.storage.compaction_job import CompactionJob, ProducerEnd, compact
from millstream.storage.files import Files, OsFiles
from millstream.storage.swap import CLEANED, LOG, segment_path
from millstream.storage.walk import DamagedBatch
from tests.simulation.files import MemoryFiles
from tests.unit.storage.compaction_logs import (
    FOLDER,
    NOW,
    job_for,
    read_batches,
    read_records,
    run,
    spans,
    write_log,
)

T = NOW - 10_000


def batch(*pairs: tuple[str | None, str | None], compression: int = 0, **more: int | bool) -> bytearray:
    """A batch of keys and values, in text."""
    records = [
        Record(0, T + at, None if key is None else key.encode(), None if value is None else value.encode())
        for at, (key, value) in enumerate(pairs)
    ]
    return encode_batch(records, compression=compression, **more)  # type: ignore[arg-type]


def state(files: Files) -> list[tuple[int, str, str | None]]:
    """Offset, key and value of each record that is left."""
    return [
        (record.offset, (record.key or b"").decode(), None if record.value is None else record.value.decode())
        for header, records in read_batches(files)
        if not header.is_control
        for record in records
    ]


@pytest.fixture
def files() -> MemoryFiles:
    return MemoryFiles(Random(1))


def test_the_last_record_of_each_key_stays_where_it_was(files: MemoryFiles) -> None:
    write_log(files, [[batch(("a", "1"), ("b", "1"), ("c", "1"))], [batch(("a", "2"), ("c", "2"))]])
    result = run(job_for(files, 5))
    assert state(files) == [(1, "b", "1"), (3, "a", "2"), (4, "c", "2")]
    assert (result.records_read, result.records_kept, result.cleaned_to) == (5, 3, 5)
    first, second = [header for header, _ in read_batches(files)]
    assert (first.base_offset, first.last_offset, first.record_count) == (0, 2, 1)
    assert first.max_timestamp == T + 1
    assert second.record_count == 2


def test_the_active_segment_is_not_touched_and_supersedes_nothing_yet(files: MemoryFiles) -> None:
    write_log(files, [[batch(("a", "1"))], [batch(("b", "1"))], [batch(("a", "2"))]])
    run(job_for(files, 2))
    assert state(files) == [(0, "a", "1"), (1, "b", "1"), (2, "a", "2")]


def test_a_record_of_the_clean_part_goes_when_the_dirty_part_supersedes_it(files: MemoryFiles) -> None:
    write_log(files, [[batch(("a", "1"), ("b", "1"))], [batch(("a", "2"))]])
    run(job_for(files, 3, first_dirty_offset=2))
    assert state(files) == [(1, "b", "1"), (2, "a", "2")]


def test_a_batch_that_loses_nothing_is_copied_byte_for_byte(files: MemoryFiles) -> None:
    kept = batch(("x", "1"), ("y", "1"), compression=4, producer_id=7, producer_epoch=2, base_sequence=5)
    write_log(files, [[batch(("a", "1")), kept], [batch(("a", "2"))]])
    run(job_for(files, 4))
    data = files.read(segment_path(FOLDER, 0, LOG))
    assert bytes(kept) == data[: len(kept)]


def test_a_log_where_nothing_is_superseded_is_left_alone(files: MemoryFiles) -> None:
    write_log(files, [[batch(("a", "1")), batch(("b", "1"))]])
    result = run(job_for(files, 2))
    assert result.groups == []
    assert result.cleaned_to == 2
    assert not [name for name in files.list(FOLDER) if name.endswith(CLEANED)]


@pytest.mark.parametrize("compression", CODECS)
def test_a_thinned_batch_keeps_codec_producer_and_sequence(files: MemoryFiles, compression: int) -> None:
    thinned = batch(
        *[(f"key-{at}", "v" * 50) for at in range(40)],
        compression=compression,
        producer_id=9,
        producer_epoch=3,
        base_sequence=100,
    )
    write_log(files, [[thinned], [batch(*[(f"key-{at}", "w") for at in range(0, 40, 2)])]])
    run(job_for(files, 60))
    header, records = read_batches(files)[0]
    assert header.compression == compression
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 3, 100)
    assert (header.base_offset, header.last_offset, header.last_sequence) == (0, 39, 139)
    assert [record.offset for record in records] == list(range(1, 40, 2))
    assert [record.timestamp for record in records] == [T + at for at in range(1, 40, 2)]


def test_long_keys_are_told_apart_and_found_again(files: MemoryFiles) -> None:
    keys = ["k" * 15, "k" * 16, "k" * 17, "k" * 15 + "\x80", "", "\0", "\0\0", "z" * 500, "z" * 499]
    write_log(files, [[batch(*[(key, "old") for key in keys])], [batch(*[(key, "new") for key in keys])]])
    run(job_for(files, 18))
    assert state(files) == [(9 + at, key, "new") for at, key in enumerate(keys)]


def test_records_without_a_key_are_dropped_and_counted(files: MemoryFiles) -> None:
    write_log(files, [[batch(("a", "1"), (None, "lost"))]])
    result = run(job_for(files, 2))
    assert state(files) == [(0, "a", "1")]
    assert result.records_without_key == 1


def test_a_tombstone_takes_the_value_at_once_and_goes_itself_after_its_time(files: MemoryFiles) -> None:
    write_log(files, [[batch(("a", "1"), ("b", "1"))], [batch(("a", None), ("c", "1"))], [batch(("d", "1"))]])
    run(job_for(files, 5))
    assert state(files) == [(1, "b", "1"), (2, "a", None), (3, "c", "1"), (4, "d", "1")]
    marked = [header for header, _ in read_batches(files) if header.attributes & DELETE_HORIZON]
    assert [header.base_timestamp for header in marked] == [NOW + 1_000]
    assert [record.timestamp for record in read_records(files)] == [T + 1, T, T + 1, T]
    before = state(files)
    run(job_for(files, 5, first_dirty_offset=5, now_ms=NOW + 999))
    assert state(files) == before
    run(job_for(files, 5, first_dirty_offset=5, now_ms=NOW + 1_000))
    assert state(files) == [(1, "b", "1"), (3, "c", "1"), (4, "d", "1")]


def test_a_key_written_again_after_its_tombstone_stays(files: MemoryFiles) -> None:
    write_log(files, [[batch(("a", "1")), batch(("a", None)), batch(("a", "3"))]])
    run(job_for(files, 3))
    assert state(files) == [(2, "a", "3")]


def test_small_segments_become_one_and_end_where_the_last_ended(files: MemoryFiles) -> None:
    write_log(files, [[batch(("a", "1"))], [batch(("b", "1"))], [batch(("a", "2"))], [batch(("x", "1"))]])
    write_log(files, [[batch(("a", "3"))]], first_offset=4)
    run(job_for(files, 4))
    assert [span.base_offset for span in spans(files)] == [0, 4]
    assert [header.last_offset for header, _ in read_batches(files)] == [1, 2, 3, 4]


def test_a_segment_whose_records_are_all_gone_still_says_where_it_ended(files: MemoryFiles) -> None:
    write_log(files, [[batch(("a", "1"), ("b", "1"))], [batch(("a", "2"), ("b", "2"))]])
    run(job_for(files, 4, segment_bytes=60))
    assert [span.base_offset for span in spans(files)] == [0, 2]
    header, records = read_batches(files)[0]
    assert (header.base_offset, header.last_offset, header.record_count, records) == (0, 1, 0, [])


def test_the_last_batch_of_a_producer_stays_as_an_empty_one(files: MemoryFiles) -> None:
    mine = batch(("a", "1"), ("b", "1"), producer_id=5, producer_epoch=1, base_sequence=10)
    older = batch(("a", "0"), producer_id=5, producer_epoch=1, base_sequence=9)
    write_log(files, [[older, mine], [batch(("a", "2"), ("b", "2"))]])
    run(job_for(files, 5, producers={5: ProducerEnd(epoch=1, last_data_offset=2)}))
    header, records = read_batches(files)[0]
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (5, 1, 10, 11)
    assert (header.base_offset, header.last_offset, header.record_count, records) == (1, 2, 0, [])
    assert header.max_timestamp == T + 1
    run(job_for(files, 5, first_dirty_offset=5))  # The producer has expired.
    assert state(files) == [(3, "a", "2"), (4, "b", "2")]
    assert len(read_batches(files)) == 1


def transaction(producer_id: int, *pairs: tuple[str | None, str | None], sequence: int = 0) -> bytearray:
    return batch(*pairs, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True)


def marker(kind: int, producer_id: int) -> bytearray:
    return encode_marker(kind, producer_id=producer_id, producer_epoch=0, timestamp=T)


def test_aborted_records_go_and_supersede_nothing(files: MemoryFiles) -> None:
    write_log(
        files,
        [[batch(("a", "1")), transaction(5, ("a", "no")), transaction(6, ("b", "yes")), marker(ABORT, 5)]],
    )
    write_log(files, [[marker(COMMIT, 6)]], first_offset=4)
    run(job_for(files, 4))
    assert state(files) == [(0, "a", "1"), (2, "b", "yes")]


def test_an_abort_marker_further_on_is_found(files: MemoryFiles) -> None:
    write_log(files, [[batch(("a", "1")), transaction(5, ("a", "no"))], [batch(("x", "1")), marker(ABORT, 5)]])
    run(job_for(files, 2))
    assert state(files) == [(0, "a", "1"), (2, "x", "1")]


def test_a_producer_may_commit_after_it_aborted(files: MemoryFiles) -> None:
    write_log(
        files,
        [
            [transaction(5, ("a", "no")), marker(ABORT, 5)],
            [transaction(5, ("a", "yes"), sequence=1), marker(COMMIT, 5), batch(("z", "1"))],
        ],
    )
    run(job_for(files, 5))
    assert state(files) == [(2, "a", "yes"), (4, "z", "1")]


def test_a_marker_goes_only_after_its_data_and_its_time(files: MemoryFiles) -> None:
    """Pass by pass: data there, data gone, time running, time over."""
    write_log(files, [[transaction(5, ("a", "1")), marker(COMMIT, 5)], [batch(("a", "2"))], [batch(("q", "1"))]])

    def markers() -> list[tuple[int, bool]]:
        found = [header for header, _ in read_batches(files) if header.is_control]
        return [(header.base_offset, bool(header.attributes & DELETE_HORIZON)) for header in found]

    run(job_for(files, 2))
    assert markers() == [(1, False)]
    run(job_for(files, 4, first_dirty_offset=2))
    assert (state(files), markers()) == ([(2, "a", "2"), (3, "q", "1")], [(1, False)])
    run(job_for(files, 4, first_dirty_offset=4))
    assert markers() == [(1, True)]
    run(job_for(files, 4, first_dirty_offset=4, now_ms=NOW + 999))
    assert markers() == [(1, True)]
    run(job_for(files, 4, first_dirty_offset=4, now_ms=NOW + 1_000))
    assert markers() == []


def test_the_marker_that_holds_a_producers_epoch_stays_as_an_empty_batch(files: MemoryFiles) -> None:
    write_log(files, [[marker(COMMIT, 5), batch(("a", "1"))], [batch(("b", "1"))]])
    ends = {5: ProducerEnd(epoch=0, last_data_offset=-1)}
    for now_ms in (NOW, NOW + 1_000, NOW + 2_000):
        run(job_for(files, 3, now_ms=now_ms, producers=ends))
    header, records = read_batches(files)[0]
    assert header.is_control
    assert (header.producer_id, header.producer_epoch, records) == (5, 0, [])


def test_keys_beyond_the_memory_are_left_for_the_next_run(files: MemoryFiles) -> None:
    segments = [[batch(*[(f"{at}", "1")]) for at in range(base, base + 10)] for base in range(0, 40, 10)]
    write_log(files, [*segments, [batch(*[(f"{at}", "2") for at in range(10)])], [batch(("end", "1"))]])
    dirty, runs = 0, 0
    while dirty < 50:
        result = run(job_for(files, 50, first_dirty_offset=dirty, dedupe_bytes=24 * 20))
        assert result.cleaned_to > dirty
        dirty, runs = result.cleaned_to, runs + 1
    assert runs > 2
    assert state(files) == [
        *[(at, str(at), "1") for at in range(10, 40)],
        *[(40 + at, str(at), "2") for at in range(10)],
        (50, "end", "1"),
    ]


def test_a_batch_with_more_keys_than_the_memory_holds_is_refused_and_leaves_nothing(files: MemoryFiles) -> None:
    write_log(files, [[batch(*[(f"{at}", "1") for at in range(50)])]])
    with pytest.raises(TooManyKeys):
        compact(job_for(files, 50, dedupe_bytes=24 * 10))
    assert not [name for name in files.list(FOLDER) if name.endswith(CLEANED)]


@pytest.mark.parametrize("chunk_bytes", [1, 100, 300, 4096])
def test_chunks_of_any_size_give_the_same(files: MemoryFiles, chunk_bytes: int) -> None:
    rng = Random(3)
    batches = [
        batch(*[(f"{rng.randrange(20)}", "v" * rng.randrange(60)) for _ in range(rng.randrange(1, 5))])
        for _ in range(60)
    ]
    twin = MemoryFiles(Random(1))
    write_log(files, [batches[:20], batches[20:40], batches[40:]])
    write_log(twin, [batches[:20], batches[20:40], batches[40:]])
    end = header_at(batches[39]).next_offset
    run(job_for(files, end))
    run(job_for(twin, end, chunk_bytes=chunk_bytes, index_interval_bytes=64))
    assert read_batches(files) == read_batches(twin)


def test_a_damaged_batch_stops_the_run_and_nothing_is_lost(files: MemoryFiles) -> None:
    write_log(files, [[batch(("a", "1")), batch(("a", "2"))]])
    before = bytearray(files.read(segment_path(FOLDER, 0, LOG)))
    before[-2] ^= 0xFF
    files.damage(segment_path(FOLDER, 0, LOG), 0, before)
    with pytest.raises(DamagedBatch):
        compact(job_for(files, 2))
    assert files.read(segment_path(FOLDER, 0, LOG)) == before
    assert not [name for name in files.list(FOLDER) if name.endswith(CLEANED)]


def test_real_files_are_compacted_as_well(tmp_path: Path) -> None:
    files, folder = OsFiles(), str(tmp_path / "orders-0")
    write_log(files, [[batch(("a", "1"), ("b", "1"))], [batch(("a", "2"))]], folder)
    result = run(job_for(files, 3, folder))
    assert [(record.offset, record.value) for record in read_records(files, folder)] == [(1, b"1"), (2, b"2")]
    assert result.bytes_written == sum(span.size_bytes for span in spans(files, folder))


def test_the_throttle_keeps_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("millstream.storage.compaction.time.monotonic", lambda: 100.0 + sum(slept))
    monkeypatch.setattr("millstream.storage.compaction.time.sleep", slept.append)
    throttle = Throttle(1_000)
    throttle.spend(500)
    throttle.spend(1_500)
    assert sum(slept) == pytest.approx(2.0)


def test_a_job_can_be_sent_to_another_process(tmp_path: Path) -> None:
    job = replace(job_for(MemoryFiles(), 0, folder="/"), files=OsFiles(), folder=str(tmp_path))
    again: CompactionJob = pickle.loads(pickle.dumps(replace(job, producers={1: ProducerEnd(0, 1)})))
    assert again.folder == str(tmp_path)
    assert again.producers == {1: ProducerEnd(0, 1)}
