"""Opening a folder after a clean stop, a kill, a power cut, and damage of every small file."""

import os
import random
import shutil
from pathlib import Path
from typing import Any, ClassVar

import pytest

from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.records import COMMIT, encode_marker
from millstream.storage.files import OsFile, OsFiles
from millstream.storage.log import Log
from millstream.storage.manager import Logs
from tests.simulation.files import MemoryFiles
from tests.unit.storage.ground import (
    NOW_MS,
    OS,
    TP,
    append,
    append_marker,
    batch,
    idempotent,
    made,
    offsets,
    open_logs,
    read_all,
)

SETTINGS: dict[str, Any] = {"segment_bytes": 2_000, "index_interval_bytes": 200}


def written(files: OsFiles | MemoryFiles, path: str) -> tuple[Logs, Log]:
    """Some segments of numbered batches, of several epochs and two producers."""
    logs = open_logs(files, path, **SETTINGS)
    log = made(logs, **SETTINGS)
    for at in range(40):
        producer_id = 7 if at % 3 else 8
        sequence = sum(1 for before in range(at) if (7 if before % 3 else 8) == producer_id)
        append(
            log, idempotent(sequence, producer_id=producer_id, timestamp=NOW_MS + at, value=bytes(60)), epoch=at // 10
        )
    assert len(log.segments) > 2
    return logs, log


def killed(logs: Logs) -> None:
    for directory in logs.directories:
        directory.unlock()


def check_whole(log: Log, count: int = 40) -> None:
    assert log.end_offset == count
    assert offsets(read_all(log)) == list(range(count))
    for at in range(count):
        assert log.find_timestamp(NOW_MS + at) == (NOW_MS + at, at, at // 10)
    assert log.epochs.entries == [(epoch, epoch * 10) for epoch in range((count + 9) // 10)]
    last = log.producers.get(8)
    assert last is not None
    assert last.batches[-1].last_offset == (count - 1) // 3 * 3


def test_a_clean_stop_is_opened_without_a_scan(tmp_path: Path) -> None:
    logs, _ = written(OS, str(tmp_path))
    logs.close()
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    logs = open_logs(OS, str(tmp_path), **SETTINGS)
    log = made(logs)
    check_whole(log)
    assert (log.recovery_point, log.unflushed_batches) == (40, 0)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_killed_process_loses_nothing(tmp_path: Path) -> None:
    logs, _ = written(OS, str(tmp_path))
    killed(logs)
    log = made(open_logs(OS, str(tmp_path), **SETTINGS))
    check_whole(log)
    assert log.unflushed_batches == 40, "the next flush covers them"


def test_epochs_that_the_power_took_are_found_in_the_batches_and_kept(tmp_path: Path) -> None:
    logs, _ = written(OS, str(tmp_path))
    checkpoint = next(tmp_path.glob("*/leader-epoch-checkpoint"))
    killed(logs)
    checkpoint.write_text("0\n1\n0 0\n")
    logs = open_logs(OS, str(tmp_path), **SETTINGS)
    check_whole(made(logs))
    logs.close()
    check_whole(made(open_logs(OS, str(tmp_path), **SETTINGS)))


@pytest.mark.parametrize("stale", ["9 5", "9 10", "2 13", "1 3\n9 39"])
def test_epochs_whose_end_the_power_took_back_are_refuted_by_the_batches(tmp_path: Path, stale: str) -> None:
    """They were cut off and the log grew again, flushed, but the file that says so was not."""
    logs, _ = written(OS, str(tmp_path))
    checkpoint = next(tmp_path.glob("*/leader-epoch-checkpoint"))
    killed(logs)
    lines = ["0 0", *stale.split("\n")]
    checkpoint.write_text("\n".join(["0", str(len(lines)), *lines, ""]))
    check_whole(made(open_logs(OS, str(tmp_path), **SETTINGS)))


class CountedFile(OsFile):
    """Counts the bytes read from it, with all others."""

    __slots__ = ()
    total_bytes: ClassVar[int] = 0

    def read(self, position: int, length: int) -> bytes:
        data = super().read(position, length)
        CountedFile.total_bytes += len(data)
        return data


class CountingFiles(OsFiles):
    """Counts the bytes read from logs."""

    def open(self, path: str, *, writable: bool = False, create: bool = False) -> OsFile:
        file = super().open(path, writable=writable, create=create)
        return CountedFile(path, os.dup(file.fileno())) if path.endswith(".log") else file


def test_only_what_was_not_flushed_is_scanned(tmp_path: Path) -> None:
    logs = open_logs(OS, str(tmp_path))
    log = made(logs)
    for sequence in range(2_000):
        append(log, idempotent(sequence, value=bytes(500)))
    log.flush()
    logs.checkpoint({})
    for sequence in range(2_000, 2_010):
        append(log, idempotent(sequence, value=bytes(500)))
    killed(logs)
    CountedFile.total_bytes = 0
    log = made(open_logs(CountingFiles(), str(tmp_path)))
    assert (log.end_offset, log.recovery_point, log.unflushed_batches) == (2_010, 2_000, 10)
    assert CountedFile.total_bytes < 60_000
    assert append(log, idempotent(2_005, value=bytes(500))).is_duplicate
    with pytest.raises(ProtocolError) as refused:
        append(log, idempotent(2_004, value=bytes(500)))
    assert refused.value.code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER


def test_a_tail_torn_at_any_byte_is_cut_to_whole_batches(tmp_path: Path) -> None:
    logs, log = written(OS, str(tmp_path))
    append(log, batch(3, timestamp=NOW_MS + 40, value=b"torn"), epoch=3)
    path = Path(log.segments.active.path)
    data = path.read_bytes()
    torn_bytes = len(batch(3, value=b"torn"))
    for lost in range(1, torn_bytes + 1):
        killed(logs)
        path.write_bytes(data[:-lost])
        logs = open_logs(OS, str(tmp_path), **SETTINGS)
        log = made(logs)
        assert (log.end_offset, path.stat().st_size) == (40, len(data) - torn_bytes)
    check_whole(log)


@pytest.mark.parametrize("at", [0, 8, 12, 16, 17, 23, 30, 60, 61, 80])
def test_a_batch_damaged_above_the_recovery_point_is_cut_with_all_after_it(tmp_path: Path, at: int) -> None:
    logs, log = written(OS, str(tmp_path))
    place = log.segments[1].find(log.segments[1].base_offset + 2)
    assert place is not None
    killed(logs)
    with open(log.segments[1].path, "r+b") as file:
        file.seek(place.position + at)
        byte = file.read(1)
        file.seek(place.position + at)
        file.write(bytes([byte[0] ^ 0x80]))
    log = made(open_logs(OS, str(tmp_path), **SETTINGS))
    kept = place.base_offset
    if at == 12:  # The leader epoch is not covered by the CRC: it only may not go back.
        kept = log.end_offset
        assert kept in (place.base_offset, 40)
    assert log.end_offset == kept
    assert offsets(read_all(log)) == list(range(kept))


def test_old_bytes_behind_new_ones_are_cut(tmp_path: Path) -> None:
    """A log that was cut and grew again, when the disk kept some of the old."""
    logs = open_logs(OS, str(tmp_path))
    log = made(logs)
    append(log, batch(), epoch=1)
    append(log, batch(), epoch=1)
    old = Path(log.segments.active.path).read_bytes()
    log.truncate_to(0)
    append(log, batch(), epoch=2)
    killed(logs)
    with open(log.segments.active.path, "ab") as file:
        file.write(old[len(old) // 2 :])
    log = made(open_logs(OS, str(tmp_path)))
    assert (log.end_offset, log.epochs.entries) == (1, [(2, 0)])


@pytest.mark.parametrize("seed", range(40))
def test_what_was_cut_does_not_come_back_in_front_of_what_was_written_since(seed: int) -> None:
    """Batches of one size meet where others of that size were cut, and the power goes after the segment was rolled."""
    files = MemoryFiles(random.Random(seed))
    log = made(open_logs(files, "/data"))
    for _ in range(5):
        append(log, batch(value=b"old"), epoch=1)
    log.flush()
    log.truncate_to(2)
    for _ in range(2):
        append(log, batch(value=b"new"), epoch=2)
    log.roll(NOW_MS)
    append(log, batch(value=b"new"), epoch=2)
    files.sync_folder(log.folder)
    files.crash()
    log = made(open_logs(files, "/data"))
    values = [record.value for record in read_all(log)]
    assert values == [b"old", b"old", b"new", b"new", b"new"][: len(values)]


SMALL = [
    "orders-0/00000000000000000000.index",
    "orders-0/00000000000000000000.timeindex",
    "orders-0/leader-epoch-checkpoint",
    "orders-0/partition.metadata",
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "orders-0/LAST.index",
    "orders-0/LAST.timeindex",
    "orders-0/END.snapshot",
]


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("damage", ["gone", "empty", "halved", "zeroed", "garbled"])
@pytest.mark.parametrize("name", SMALL)
def test_any_small_file_may_be_damaged(tmp_path: Path, name: str, damage: str, is_clean: bool) -> None:
    logs, log = written(OS, str(tmp_path))
    last = f"{log.segments.active.base_offset:020d}"
    if is_clean:
        logs.close()
    else:
        log.flush()
        logs.checkpoint({})
        killed(logs)
    path = tmp_path / name.replace("LAST", last).replace("END", f"{40:020d}")
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        garbled = random.Random(0).randbytes(len(data))
        path.write_bytes(
            {"empty": b"", "halved": data[: len(data) // 2], "zeroed": bytes(len(data))}.get(damage, garbled)
        )
    log = made(open_logs(OS, str(tmp_path), **SETTINGS))
    check_whole(log)
    assert append(log, idempotent(13, producer_id=8)).is_duplicate


def test_a_log_that_apache_kafka_was_killed_on_opens(tmp_path: Path) -> None:
    """Indexes of the active segment are ten megabytes long, nearly all of it zeros; snapshots lie at odd offsets."""
    logs, log = written(OS, str(tmp_path))
    log.flush()
    killed(logs)
    for suffix in (".index", ".timeindex"):
        with open(log.segments.active.stem + suffix, "r+b") as file:
            file.truncate(10 * 1024 * 1024)
    shutil.copy(log.snapshots.path(40), log.snapshots.path(33))
    (tmp_path / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    log = made(open_logs(OS, str(tmp_path), **SETTINGS))
    check_whole(log)
    append(log, batch(timestamp=NOW_MS + 40), epoch=3)
    log.flush()
    assert Path(log.segments.active.offsets.path).stat().st_size < 1_000
    assert Path(log.segments.active.times.path).stat().st_size < 1_000


def test_leftovers_of_a_former_process_are_cleared_away(tmp_path: Path) -> None:
    logs, log = written(OS, str(tmp_path))
    logs.close()
    folder = Path(log.folder)
    for name in (
        "00000000000000000999.index",
        "00000000000000000000.log.deleted",
        "x.tmp",
        "00000000000000000005.log.cleaned",
    ):
        (folder / name).write_bytes(b"x")
    check_whole(made(open_logs(OS, str(tmp_path), **SETTINGS)))
    assert not {path.suffix for path in folder.iterdir()} & {".deleted", ".tmp", ".cleaned"}
    assert not (folder / "00000000000000000999.index").exists()


def test_files_that_are_none_of_ours_are_left_alone(tmp_path: Path) -> None:
    logs, log = written(OS, str(tmp_path))
    logs.close()
    for name in ("README", "notes.log", "00000000000000000005.txnindex"):
        (Path(log.folder) / name).write_bytes(b"x")
    check_whole(made(open_logs(OS, str(tmp_path), **SETTINGS)))
    assert (Path(log.folder) / "notes.log").read_bytes() == b"x"


def test_a_log_whose_segments_are_gone_starts_where_it_should(tmp_path: Path) -> None:
    logs, log = written(OS, str(tmp_path))
    log.advance_start(25)
    logs.close()
    for path in Path(log.folder).iterdir():
        path.unlink()
    log = made(open_logs(OS, str(tmp_path), **SETTINGS))
    assert (log.start_offset, log.end_offset) == (25, 25)
    assert append(log, batch()).first_offset == 25


def test_a_transaction_open_at_a_crash_is_open_after_it(tmp_path: Path) -> None:
    logs = open_logs(OS, str(tmp_path))
    log = made(logs)
    append(log, idempotent(0, producer_id=9, transactional=True))
    append_marker(log, encode_marker(COMMIT, producer_id=9, producer_epoch=0, timestamp=NOW_MS, coordinator_epoch=3))
    append(log, idempotent(0, producer_id=10, transactional=True))
    append(log, batch())
    killed(logs)
    log = made(open_logs(OS, str(tmp_path)))
    assert log.producers.first_unstable_offset(log.end_offset) == 2
    ended = log.producers.get(9)
    assert ended is not None
    assert (ended.coordinator_epoch, ended.txn_first_offset) == (3, -1)


def test_what_was_acknowledged_after_a_commit_survives_any_power_cut() -> None:
    for seed in range(30):
        files = MemoryFiles(random.Random(seed))
        logs, log = written(files, "/data")
        log.flush()
        append(log, batch(5), epoch=3)
        files.crash()
        log = made(open_logs(files, "/data", **SETTINGS))
        assert log.end_offset in (40, 45)
        assert offsets(read_all(log)) == list(range(log.end_offset))
        del logs


def test_damage_below_the_recovery_point_is_never_served(tmp_path: Path) -> None:
    logs, log = written(OS, str(tmp_path))
    logs.close()
    with open(log.segments[0].path, "r+b") as file:
        file.seek(log.segments[0].size // 2)
        file.write(bytes(200))
    log = made(open_logs(OS, str(tmp_path), **SETTINGS))
    assert log.end_offset == 40, "what lies behind is still there"
    refused = 0
    for offset in range(40):
        try:
            piece = log.read(offset, 1, 40)
            assert piece is not None
            log.check(piece, offset)
        except ProtocolError as refusal:
            assert refusal.code is ErrorCode.CORRUPT_MESSAGE
            refused += 1
    assert 0 < refused < 20


def test_the_partition_is_found_under_its_name(tmp_path: Path) -> None:
    logs, _ = written(OS, str(tmp_path))
    assert [log.topic_partition for log in logs] == [TP]


@pytest.mark.parametrize("is_clean", [True, False], ids=["after a clean stop", "after a crash"])
def test_indexes_that_were_made_anew_below_the_recovery_point_are_both_on_the_disk(*, is_clean: bool) -> None:
    """Were the offsets there without the times, a crash later nobody would look for the greatest time before them."""
    files = MemoryFiles()
    logs = open_logs(files, "/data", index_interval_bytes=200)
    log = made(logs, index_interval_bytes=200)
    for at in range(12):
        append(log, batch(timestamp=NOW_MS + (500 if at == 2 else at), value=bytes(1_000)))
    logs.close()
    if not is_clean:
        files.remove("/data/.kafka_cleanshutdown")
    path = log.segments.active.offsets.path
    files.remove(path)
    log = made(open_logs(files, "/data", index_interval_bytes=200))
    assert log.max_timestamp() == (NOW_MS + 500, 2, 0)
    assert files.size(path)
    assert files.is_durable(path)
    assert files.is_durable(log.segments.active.times.path)
