"""A partition's log: appending, refusing, rolling, reading, finding by time."""

import asyncio
import errno
import struct
from pathlib import Path
from typing import Any

import pytest

from millstream.model.batch import LOG_APPEND_TIME, crc_holds, header_at
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.records import COMMIT, Record, decode_batch, encode_batch, encode_marker
from millstream.storage.log import RECENT_BATCHES, Log
from millstream.storage.segment import RELATIVE_OFFSET_MAX
from tests.simulation.files import MemoryFiles
from tests.unit.storage.ground import (
    NOW_MS,
    OS,
    Here,
    SetClock,
    append,
    append_marker,
    batch,
    headers_of,
    idempotent,
    new_log,
    offsets,
    read_all,
    records_of,
)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return new_log(OS, str(tmp_path))


def code_of(refused: pytest.ExceptionInfo[ProtocolError]) -> ErrorCode:
    return refused.value.code


# Appending.


def test_batches_are_stamped_with_offset_and_epoch(log: Log) -> None:
    append(log, batch(3), epoch=4)
    outcome = append(log, batch(2), batch(1), epoch=4)
    assert (outcome.first_offset, outcome.last_offset, outcome.append_time_ms) == (3, 5, -1)
    headers = headers_of(Path(log.segments.active.path).read_bytes())
    assert [(header.base_offset, header.leader_epoch) for header in headers] == [(0, 4), (3, 4), (5, 4)]
    assert log.end_offset == 6
    assert log.epochs.entries == [(4, 0)]


def test_the_log_s_own_time_is_stamped_where_configured(tmp_path: Path) -> None:
    log = new_log(OS, str(tmp_path), message_timestamp_type="LogAppendTime")
    outcome = append(log, batch(2, timestamp=5), now_ms=NOW_MS + 1)
    assert outcome.append_time_ms == NOW_MS + 1
    data = Path(log.segments.active.path).read_bytes()
    header = header_at(data)
    assert header.attributes & LOG_APPEND_TIME
    assert (header.max_timestamp, crc_holds(data, 0, header)) == (NOW_MS + 1, True)
    assert log.find_timestamp(NOW_MS) == (NOW_MS + 1, 0, 0)


def test_too_large_a_batch_is_refused(tmp_path: Path) -> None:
    log = new_log(OS, str(tmp_path), max_message_bytes=200)
    with pytest.raises(ProtocolError) as refused:
        append(log, batch(1, value=bytes(200)))
    assert code_of(refused) is ErrorCode.MESSAGE_TOO_LARGE
    assert log.end_offset == 0


def test_more_than_a_segment_holds_is_refused(tmp_path: Path) -> None:
    log = new_log(OS, str(tmp_path), segment_bytes=300)
    with pytest.raises(ProtocolError) as refused:
        append(log, batch(1, value=bytes(200)), batch(1, value=bytes(200)))
    assert code_of(refused) is ErrorCode.RECORD_LIST_TOO_LARGE


def test_clients_write_no_control_batches_and_number_their_records(log: Log) -> None:
    marker = encode_marker(COMMIT, producer_id=1, producer_epoch=0, timestamp=0)
    with pytest.raises(ProtocolError) as refused:
        append(log, marker)
    assert code_of(refused) is ErrorCode.INVALID_RECORD
    with pytest.raises(ProtocolError) as refused:
        append(log, batch(1, producer_id=7, producer_epoch=0))
    assert code_of(refused) is ErrorCode.INVALID_RECORD


def test_a_repeat_is_not_appended(log: Log) -> None:
    first = append(log, idempotent(0, 3))
    append(log, batch())
    again = append(log, idempotent(0, 3))
    assert again == first._replace(is_duplicate=True)
    assert log.end_offset == 4


def test_a_request_with_a_gap_inside_appends_nothing(log: Log) -> None:
    with pytest.raises(ProtocolError) as refused:
        append(log, idempotent(0), idempotent(2))
    assert code_of(refused) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (log.end_offset, len(log.producers)) == (0, 0)


def test_transactions_open_and_end(log: Log) -> None:
    append(log, batch())
    append(log, idempotent(0, transactional=True))
    assert log.producers.first_unstable_offset(log.end_offset) == 1
    append_marker(log, encode_marker(COMMIT, producer_id=7, producer_epoch=0, timestamp=NOW_MS))
    assert log.producers.first_unstable_offset(log.end_offset) is None
    assert log.end_offset == 3


def test_a_full_disk_loses_nothing_that_was_there_and_takes_the_directory_offline() -> None:
    files = MemoryFiles()
    log = new_log(files, "/data")
    append(log, batch(2))
    with files.failing("append", errno.ENOSPC), pytest.raises(ProtocolError) as refused:
        append(log, batch())
    assert code_of(refused) is ErrorCode.KAFKA_STORAGE_ERROR
    assert (log.end_offset, log.is_offline) == (2, True)
    for action in (lambda: append(log, batch()), lambda: log.read(0, 100, 2), lambda: log.find_timestamp(0)):
        with pytest.raises(ProtocolError) as refused:
            action()
        assert code_of(refused) is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(headers_of(files.read(log.segments.active.path))) == 1


def test_a_follower_keeps_the_leader_s_offsets_and_epochs(tmp_path: Path) -> None:
    leader, follower = new_log(OS, str(tmp_path / "a")), new_log(OS, str(tmp_path / "b"))
    append(leader, idempotent(0, 2), epoch=1)
    append(leader, batch(3), epoch=2)
    data = Path(leader.segments.active.path).read_bytes()
    follower.append_as_follower(memoryview(bytearray(data)))
    assert Path(follower.segments.active.path).read_bytes() == data
    assert follower.epochs.entries == leader.epochs.entries == [(1, 0), (2, 2)]
    assert follower.end_offset == 5
    assert append(follower, idempotent(0, 2)).is_duplicate


def test_a_follower_leaves_out_a_batch_cut_short(tmp_path: Path) -> None:
    leader, follower = new_log(OS, str(tmp_path / "a")), new_log(OS, str(tmp_path / "b"))
    append(leader, batch(2), batch(2))
    data = Path(leader.segments.active.path).read_bytes()
    follower.append_as_follower(memoryview(bytearray(data[:-1])))
    assert follower.end_offset == 2
    follower.append_as_follower(memoryview(bytearray(data[:10])))
    assert follower.end_offset == 2


def test_a_follower_refuses_offsets_it_has_and_bytes_that_changed(tmp_path: Path) -> None:
    log = new_log(OS, str(tmp_path))
    log.append_as_follower(memoryview(batch(2, base_offset=10)))
    assert log.end_offset == 12
    flipped = batch(2, base_offset=12)
    flipped[-1] ^= 1
    for bad in (batch(2, base_offset=11), flipped):
        with pytest.raises(ProtocolError) as refused:
            log.append_as_follower(memoryview(bad))
        assert code_of(refused) is ErrorCode.CORRUPT_MESSAGE
    assert log.end_offset == 12


# Rolling.


def test_a_segment_is_closed_before_it_would_pass_its_size(tmp_path: Path) -> None:
    size = len(batch())
    log = new_log(OS, str(tmp_path), segment_bytes=size * 2)
    for _ in range(5):
        append(log, batch())
    assert log.segments.bases == [0, 2, 4]
    names = sorted(path.name for path in Path(log.folder).iterdir() if path.suffix == ".log")
    assert names == [f"{base:020d}.log" for base in (0, 2, 4)]
    assert offsets(read_all(log)) == [0, 1, 2, 3, 4]


def test_a_segment_is_closed_by_the_age_of_its_first_batch(tmp_path: Path) -> None:
    log = new_log(OS, str(tmp_path), segment_ms=1_000)
    append(log, batch(timestamp=NOW_MS))
    append(log, batch(timestamp=NOW_MS + 1_000))
    assert len(log.segments) == 1
    append(log, batch(timestamp=NOW_MS + 1_001))
    assert log.segments.bases == [0, 2]


def test_a_segment_without_timestamps_is_closed_by_the_clock(tmp_path: Path) -> None:
    log = new_log(OS, str(tmp_path), segment_ms=1_000)
    append(log, encode_batch([Record(timestamp=-1, value=b"v")]), now_ms=NOW_MS)
    append(log, encode_batch([Record(timestamp=-1, value=b"v")]), now_ms=NOW_MS + 1_001)
    assert log.segments.bases == [0, 1]


def test_jitter_closes_segments_earlier_and_apart(tmp_path: Path) -> None:
    ages = set()
    log = new_log(OS, str(tmp_path), segment_ms=10_000, segment_jitter_ms=5_000)
    for _ in range(5):
        ages.add(log.segments.active.roll_jitter_ms)
        append(log, batch())
        log.roll(NOW_MS)
    assert len(ages) > 1
    assert all(0 <= age < 5_000 for age in ages)


def test_a_full_index_closes_the_segment(tmp_path: Path) -> None:
    log = new_log(OS, str(tmp_path), index_interval_bytes=0, segment_index_bytes=24)
    for _ in range(9):
        append(log, batch())
    assert log.segments.bases == [0, 4, 8]
    assert all(len(segment.offsets) <= 3 for segment in log.segments)


def test_offsets_too_far_from_the_first_begin_a_segment(tmp_path: Path) -> None:
    log = new_log(OS, str(tmp_path))
    for base in (0, RELATIVE_OFFSET_MAX, RELATIVE_OFFSET_MAX + 1):
        log.append_as_follower(memoryview(batch(base_offset=base)))
    assert log.segments.bases == [0, RELATIVE_OFFSET_MAX + 1]
    far = bytearray().join([batch(base_offset=2**32), batch(base_offset=2**34)])
    log.append_as_follower(memoryview(far))
    assert log.segments.bases[-2:] == [RELATIVE_OFFSET_MAX + 2, 2**34], "the first of them is just near enough"


def test_an_empty_segment_is_not_rolled(log: Log) -> None:
    log.roll(NOW_MS)
    assert len(log.segments) == 1


# Reading.


def test_a_read_starts_with_the_batch_that_holds_the_offset(log: Log) -> None:
    append(log, batch(10))
    append(log, batch(10))
    assert offsets(records_of(log.read(15, 1 << 20, 20))) == list(range(10, 20))


def test_a_read_gives_at_least_one_batch_and_else_what_fits(log: Log) -> None:
    size = len(batch(1))
    for _ in range(10):
        append(log, batch(1))
    first = log.read(0, 1, 10)
    assert first is not None and len(first) == size
    some = log.read(2, size * 3, 10)
    assert some is not None
    assert offsets(records_of(some)) == [2, 3, 4]


def test_nothing_at_or_above_the_upper_bound_is_read(log: Log) -> None:
    for _ in range(4):
        append(log, batch(2))
    assert offsets(records_of(log.read(0, 1 << 20, 4))) == [0, 1, 2, 3]
    assert offsets(records_of(log.read(0, 1 << 20, 5))) == [0, 1, 2, 3], "a batch that reaches past it stays away whole"
    assert log.read(4, 1 << 20, 4) is None
    assert log.read(8, 1 << 20, 8) is None
    assert log.read(6, 1 << 20, 4) is None


@pytest.mark.parametrize("offset", [-1, 1, 9])
def test_a_read_outside_the_log_is_out_of_range(log: Log, offset: int) -> None:
    append(log, batch(8))
    log.advance_start(2)
    with pytest.raises(ProtocolError) as refused:
        log.read(offset, 100, 8)
    assert code_of(refused) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_old_and_recent_batches_are_read_alike(tmp_path: Path) -> None:
    """Across the list of recent batches, pending index entries, the index file and closed segments."""
    log = new_log(OS, str(tmp_path), segment_bytes=300_000)
    count = 3 * RECENT_BATCHES
    for at in range(count):
        append(log, batch(1, value=b"%d" % at + bytes(80)))
        if at == RECENT_BATCHES:
            log.flush()
    assert len(log.segments) > 1
    for offset in (*range(0, count, 61), count - 1):
        for upper in (min(offset + 7, count), count):
            found = records_of(log.read(offset, 500, upper))
            assert found[0].offset == offset
            assert found[0].value == b"%d" % offset + bytes(80)
            assert found[-1].offset < upper


def test_a_slice_outlives_the_segment_it_was_cut_from(tmp_path: Path) -> None:
    log = new_log(OS, str(tmp_path), retention_ms=0, file_delete_delay_ms=0)
    append(log, batch(2))
    piece = log.read(0, 1 << 20, 2)
    log.roll(NOW_MS)
    assert log.enforce_retention(NOW_MS + 10, 2) > 0
    for path in log.directory.due(NOW_MS):
        OS.remove(path)
    assert offsets(records_of(piece)) == [0, 1]


def test_offsets_missing_after_compaction_are_skipped(tmp_path: Path) -> None:
    log = new_log(OS, str(tmp_path))
    log.append_as_follower(memoryview(batch(1, base_offset=5)))
    log.roll(NOW_MS)
    log.append_as_follower(memoryview(batch(1, base_offset=50)))
    assert offsets(records_of(log.read(0, 100, 51))) == [5]
    log.directory.open_files.forget_folder(log.folder)
    assert offsets(records_of(log.read(6, 100, 51))) == [50]


# Finding by time.


def test_the_first_record_at_or_after_a_time_is_found_exactly(tmp_path: Path) -> None:
    log = new_log(OS, str(tmp_path), index_interval_bytes=300, segment_bytes=4_000)
    for at in range(100):
        append(log, batch(3, timestamp=at * 10), epoch=at // 40)
    assert len(log.segments) > 2
    for timestamp in (0, 1, 2, 3, 10, 399, 500, 512, 992):
        at, within = divmod(timestamp, 10)
        at, within = (at, within) if within < 3 else (at + 1, 0)
        assert log.find_timestamp(timestamp) == (at * 10 + within, at * 3 + within, at // 40)
    assert log.find_timestamp(993) is None
    assert log.max_timestamp() == (992, 299, 2)


def test_times_that_go_back_and_forth_are_found_by_offset_order(tmp_path: Path) -> None:
    log = new_log(OS, str(tmp_path), index_interval_bytes=0)
    for timestamp in (50, 10, 70, 20, 70, 60):
        append(log, batch(1, timestamp=timestamp))
    assert log.find_timestamp(51) == (70, 2, 0)
    assert log.find_timestamp(20) == (50, 0, 0)
    assert log.max_timestamp() == (70, 2, 0)


@pytest.mark.parametrize("compression", [1, 2, 3, 4])
def test_compressed_batches_are_searched_too(log: Log, compression: int) -> None:
    append(log, batch(50, timestamp=1_000, compression=compression))
    assert log.find_timestamp(1_042) == (1_042, 42, 0)


def test_a_log_at_rest_has_its_newest_time_in_the_index_whenever_it_was_flushed(tmp_path: Path) -> None:
    log = new_log(OS, str(tmp_path))
    append(log, batch(3))
    log.flush()
    log.close()
    entry = (tmp_path / "orders-0" / f"{0:020d}.timeindex").read_bytes()
    assert entry == struct.pack(">qi", NOW_MS + 2, 2)
    log.close()
    assert (tmp_path / "orders-0" / f"{0:020d}.timeindex").read_bytes() == entry


def test_times_before_the_log_s_start_are_not_found(log: Log) -> None:
    append(log, batch(10, timestamp=1_000))
    append(log, batch(1, timestamp=500))
    log.advance_start(10)
    assert log.find_timestamp(600) is None
    assert log.find_timestamp(1) == (500, 10, 0)
    assert log.max_timestamp() == (500, 10, 0)


class CountedThreads(Here):
    def __init__(self) -> None:
        self.calls = 0

    async def in_thread(self, function: Any, *args: Any) -> Any:
        self.calls += 1
        return await asyncio.to_thread(function, *args)


@pytest.mark.parametrize(("count", "compression", "calls"), [(3, 0, 0), (3, 4, 1), (900, 0, 1), (900, 1, 1)])
def test_only_what_takes_long_is_decoded_in_a_thread(log: Log, count: int, compression: int, calls: int) -> None:
    append(log, batch(1, timestamp=10))
    append(log, batch(count, timestamp=1_000, compression=compression))
    threads = CountedThreads()
    last = 1_000 + count - 1
    assert asyncio.run(log.find_timestamp_async(last, threads)) == (last, count, 0)
    assert threads.calls == calls
    assert asyncio.run(log.max_timestamp_async(threads)) == (last, count, 0)
    assert asyncio.run(log.find_timestamp_async(last + 1, threads)) is None


def test_a_search_goes_on_behind_a_batch_whose_newest_is_cut_off(log: Log) -> None:
    """Found in a thread while the log is changed: what is appended meanwhile does no harm."""
    append(log, batch(2, timestamp=3_000), batch(1, timestamp=500))
    newer_first = [Record(timestamp=2_000, value=b"a"), Record(timestamp=100, value=b"b" * 9_000)]
    append(log, encode_batch(newer_first), batch(5, timestamp=700, value=b"c" * 2_000))
    log.advance_start(4)

    class Meanwhile(CountedThreads):
        async def in_thread(self, function: Any, *args: Any) -> Any:
            append(log, batch(1, timestamp=705))
            log.roll(NOW_MS)
            return await super().in_thread(function, *args)

    assert asyncio.run(log.find_timestamp_async(701, Meanwhile())) == (701, 6, 0)
    assert asyncio.run(log.max_timestamp_async(Meanwhile())) == log.max_timestamp() == (705, 10, 0)


def test_a_disk_that_fails_during_a_search_is_offline() -> None:
    files = MemoryFiles()
    files.make_folder("/data")
    log = new_log(files, "/data")
    append(log, batch(900))

    class Failing(CountedThreads):
        async def in_thread(self, function: Any, *args: Any) -> Any:
            files.fail("read", errno.EIO)
            return await super().in_thread(function, *args)

    with pytest.raises(ProtocolError) as refused:
        asyncio.run(log.find_timestamp_async(NOW_MS, Failing()))
    assert code_of(refused) is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.is_offline


def test_an_empty_log_has_no_times(log: Log) -> None:
    assert log.find_timestamp(0) is None
    assert log.max_timestamp() is None


# Damage.


def test_a_batch_that_the_disk_changed_is_reported_and_never_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = new_log(OS, str(tmp_path))
    size = len(batch(1))
    for _ in range(6):
        append(log, batch(1))
    log.roll(NOW_MS)
    with open(log.segments[0].path, "r+b") as file:
        file.seek(3 * size + 65)
        file.write(b"\xff")
    piece = log.read(0, 1 << 20, 6)
    assert piece is not None
    log.check(piece, 0)
    assert offsets(records_of(piece)) == [0, 1, 2]
    assert "CRC" in caplog.text
    assert offsets(records_of(log.read(1, 1 << 20, 6))) == [1, 2]
    with pytest.raises(ProtocolError) as refused:
        log.read(3, 1 << 20, 6)
    assert code_of(refused) is ErrorCode.CORRUPT_MESSAGE


def test_a_header_that_the_disk_changed_is_never_served(tmp_path: Path) -> None:
    log = new_log(OS, str(tmp_path))
    size = len(batch(1))
    for _ in range(6):
        append(log, batch(1))
    log.roll(NOW_MS)
    with open(log.segments[0].path, "r+b") as file:
        file.seek(3 * size + 8)
        file.write(b"\xff\xff\xff\xff")
    with pytest.raises(ProtocolError) as refused:
        log.read(4, 1 << 20, 6)
    assert code_of(refused) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("content", [b"", b"\xff" * 64, bytes(64), bytes(range(256))])
def test_a_damaged_index_of_a_closed_segment_is_made_anew(tmp_path: Path, suffix: str, content: bytes) -> None:
    log = new_log(OS, str(tmp_path), index_interval_bytes=200)
    for at in range(60):
        append(log, batch(1, timestamp=NOW_MS + at))
    log.roll(NOW_MS)
    again = new_log(OS, str(tmp_path / "other"))
    segment = log.segments[0]
    Path(segment.stem + suffix).write_bytes(content)
    fresh = type(segment)(again.directory.open_files, log.folder, 0, segment.size, NOW_MS)
    for offset in range(60):
        place = fresh.find(offset)
        assert place is not None and place.base_offset == offset
        found = fresh.first_batch(NOW_MS + offset, 0)
        assert found is not None and found[1].base_offset == offset


def test_a_repeat_older_than_the_snapshot_knows_is_looked_up_in_the_log(log: Log) -> None:
    for sequence in range(6):
        append(log, idempotent(sequence))
        append(log, batch(1))
    producer = log.producers.get(7)
    assert producer is not None
    producer.batches, producer.has_history = producer.batches[-1:], False
    found = append(log, idempotent(2))
    assert (found.first_offset, found.is_duplicate) == (4, True)
    with pytest.raises(ProtocolError) as refused:
        append(log, idempotent(0))
    assert code_of(refused) is ErrorCode.DUPLICATE_SEQUENCE_NUMBER


def test_reads_decode_what_was_appended(log: Log) -> None:
    sent = encode_batch([Record(timestamp=NOW_MS, key=b"k", value=None, headers=[("h", b"1")])])
    append(log, bytearray(sent))
    piece = log.read(0, 100, 1)
    assert piece is not None
    assert decode_batch(piece.read()) == decode_batch(sent)


def test_clocks_are_asked_not_reached_for(tmp_path: Path) -> None:
    log = new_log(OS, str(tmp_path), SetClock(42))
    assert log.segments.active.created_ms == 42
