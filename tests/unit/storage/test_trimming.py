"""Cutting a log at either end, and removing it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.model.records import ABORT, Record, encode_batch, encode_marker
from millstream.storage.log import Log
from tests.simulation.files import MemoryFiles
from tests.unit.storage.ground import (
    NOW_MS,
    OS,
    Here,
    SetClock,
    append,
    append_marker,
    batch,
    config,
    idempotent,
    new_log,
    offsets,
    read_all,
)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Four segments of three batches of two records, each segment an epoch."""
    log = new_log(OS, str(tmp_path), file_delete_delay_ms=1_000)
    for epoch in range(4):
        log.roll(NOW_MS)
        for at in range(3):
            append(log, idempotent(epoch * 6 + at * 2, 2, timestamp=NOW_MS + log.end_offset), epoch=epoch)
    assert log.segments.bases == [0, 6, 12, 18]
    return log


@pytest.mark.parametrize("offset", [0, 2, 6, 8, 12, 22])
def test_everything_from_an_offset_on_is_removed(log: Log, offset: int) -> None:
    log.truncate_to(offset)
    assert log.end_offset == log.producers.end_offset == offset
    assert offsets(read_all(log)) == list(range(offset))
    assert log.epochs.entries == [(epoch, epoch * 6) for epoch in range(4) if epoch * 6 < offset]
    assert log.find_timestamp(NOW_MS + offset) is None


def test_a_batch_that_spans_the_cut_goes_whole(log: Log) -> None:
    log.truncate_to(9)
    assert (log.end_offset, offsets(read_all(log))[-1]) == (8, 7)


def test_producers_are_as_they_were_at_the_cut(log: Log) -> None:
    log.truncate_to(10)
    producer = log.producers.get(7)
    assert producer is not None
    assert producer.last_sequence == 9
    assert append(log, idempotent(10, 2)).first_offset == 10


def test_a_cut_past_the_end_changes_nothing(log: Log) -> None:
    log.truncate_to(24)
    log.truncate_to(100)
    assert log.end_offset == 24


def test_a_cut_takes_the_recovery_point_back_and_says_so(log: Log) -> None:
    log.flush()
    told = []
    log.directory.on_rollback = lambda directory: told.append(log.recovery_point)
    log.truncate_to(10)
    assert (log.recovery_point, log.flusher.durable_offset, told) == (10, 10, [10])


def test_a_cut_before_the_start_begins_anew(log: Log) -> None:
    log.advance_start(12)
    log.truncate_to(4)
    assert (log.start_offset, log.end_offset, len(log.segments)) == (4, 4, 1)


def test_a_restart_removes_everything(log: Log) -> None:
    log.restart_at(1_000)
    assert (log.start_offset, log.end_offset, log.segments.bases) == (1_000, 1_000, [1_000])
    assert (len(log.epochs), len(log.producers), log.snapshots.offsets) == (0, 0, [])
    assert append(log, batch()).first_offset == 1_000


def test_a_start_that_advances_hides_what_is_before_it(log: Log) -> None:
    log.advance_start(7)
    assert offsets(read_all(log))[0] in (6, 7)
    assert log.epochs.entries[0] == (1, 7)
    with pytest.raises(ProtocolError) as refused:
        log.read(6, 100, 24)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    log.advance_start(3)
    assert log.start_offset == 7


def test_a_start_past_the_end_is_refused(log: Log) -> None:
    with pytest.raises(ProtocolError) as refused:
        log.advance_start(25)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_segments_before_the_start_go_and_their_files_follow_after_the_delay(log: Log) -> None:
    log.advance_start(13)
    freed = log.enforce_retention(NOW_MS, 24)
    assert freed > 0
    assert log.segments.bases == [12, 18]
    names = {path.name for path in Path(log.folder).iterdir()}
    assert "00000000000000000000.log.deleted" in names
    assert "00000000000000000000.log" not in names
    assert log.directory.due(NOW_MS + 999) == []
    due = log.directory.due(NOW_MS + 1_000)
    assert len(due) == 6
    assert all(path.endswith(".deleted") for path in due)
    assert log.snapshots.offsets[0] >= 12


def test_old_segments_go(log: Log) -> None:
    log.config = config(retention_ms=10_000)
    assert log.enforce_retention(NOW_MS + 10_000 + 11, 24) == 0 or log.start_offset == 6
    assert log.enforce_retention(NOW_MS + 10_000 + 12, 24) > 0
    assert (log.start_offset, log.segments.bases) == (12, [12, 18])


def test_a_log_that_has_wholly_expired_begins_a_new_segment_first(log: Log) -> None:
    log.config = config(retention_ms=0)
    log.enforce_retention(NOW_MS + 1_000, 24)
    assert (log.start_offset, log.end_offset, log.segments.bases) == (24, 24, [24])
    assert append(log, batch()).first_offset == 24


def test_segments_without_timestamps_go_by_the_file_s_age() -> None:
    clock = SetClock()
    log = new_log(MemoryFiles(clock=clock), "/data", clock, retention_ms=1_000)
    append(log, batch(timestamp=-1))
    log.segments.active._max_timestamp = -1
    clock.ms += 1_000
    assert log.enforce_retention(clock.ms, 1) == 0
    clock.ms += 1
    assert log.enforce_retention(clock.ms, 1) > 0


def test_a_deleted_log_is_renamed_as_kafka_does(log: Log, tmp_path: Path) -> None:
    log.delete()
    (folder,) = [path for path in tmp_path.iterdir() if path.is_dir()]
    assert folder.name.startswith("orders-0.") and folder.name.endswith("-delete")
    assert len(folder.name) == len("orders-0.") + 32 + len("-delete")
    assert log.directory.due(NOW_MS + 1_000) == [str(folder)]


@pytest.mark.parametrize("offset", [0, 23])
def test_who_reads_a_deleted_log_is_sent_away_and_the_disk_is_not_blamed(log: Log, offset: int) -> None:
    log.delete()
    for read in (lambda: log.read(offset, 100, 24), lambda: log.find_timestamp(NOW_MS), log.max_timestamp):
        with pytest.raises(ProtocolError) as refused:
            read()
        assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not log.is_offline


def test_a_search_that_a_deletion_comes_upon_is_given_up_and_the_disk_is_not_blamed(log: Log) -> None:
    """A large batch, looked at in a thread, has the time only before the log's start; then the next is looked for."""

    class Late(Here):
        async def in_thread(self, function: Any, *args: Any) -> Any:
            log.delete()
            return function(*args)

    append(log, encode_batch([Record(timestamp=NOW_MS + 1_000 - at, value=b"value") for at in range(600)]))
    append(log, batch(timestamp=NOW_MS + 2_000))
    log.advance_start(log.end_offset - 2)
    with pytest.raises(ProtocolError) as refused:
        asyncio.run(log.find_timestamp_async(NOW_MS + 900, Late()))
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not log.is_offline


def test_a_deleted_log_with_a_long_name_still_fits(tmp_path: Path) -> None:
    log = new_log(OS, str(tmp_path))
    long = Log(log.directory, TopicPartition("t" * 249, 12), config())
    long.create()
    long.delete()
    assert any(len(path.name) == 255 for path in tmp_path.iterdir())


def test_a_transaction_that_ended_before_the_logs_start_is_not_open_after_a_cut(tmp_path: Path) -> None:
    log = new_log(OS, str(tmp_path))
    append(log, idempotent(0, transactional=True))
    log.roll(NOW_MS)  # Its snapshot knows the transaction as open.
    append_marker(log, encode_marker(ABORT, producer_id=7, producer_epoch=0, timestamp=NOW_MS))
    for _ in range(3):
        append(log, batch())
    log.advance_start(2)
    log.truncate_to(4)
    assert log.producers.first_unstable_offset(log.end_offset) is None
