"""A batch that a thread writes behind a log's end: taken in whole and in order, whatever else is done to the log."""

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from millstream.model.batch import LOG_APPEND_TIME, crc_holds, header_at
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.storage.ahead import WriteAhead, write_all
from millstream.storage.files import Buffer
from millstream.storage.log import AppendOutcome, Log
from millstream.storage.moving import Copy
from tests.simulation.files import MemoryFiles
from tests.unit.storage.ground import (
    NOW_MS,
    OS,
    TP,
    append,
    batch,
    config,
    idempotent,
    made,
    new_log,
    offsets,
    open_logs,
    read_all,
)

FIRST, LARGE, LATER = batch(2, value=b"first"), batch(3, value=bytes(500)), batch(1, value=b"later")


class Ahead:
    """One batch written ahead, and what became of it."""

    def __init__(self, log: Log, records: bytearray = LARGE, epoch: int = 0) -> None:
        self.outcome: AppendOutcome | None = None
        self.refusal: ProtocolError | None = None
        self._log, self._records, self._epoch = log, memoryview(bytearray(records)), epoch
        self._header = header_at(records)
        self.write = log.write_ahead(self._records, self._header, epoch, NOW_MS, self._take_in)

    def _take_in(self) -> None:
        try:
            self.outcome = self._log.append(self._records, ((0, self._header),), self._epoch, NOW_MS)
        except ProtocolError as refusal:
            self.refusal = refusal

    @property
    def begun(self) -> WriteAhead:
        assert self.write is not None
        return self.write

    def run(self) -> "Ahead":
        write_all([self.begun])
        return self


def values(log: Log) -> list[bytes | None]:
    return [record.value for record in read_all(log)]


@pytest.fixture
def log() -> Log:
    """One that has been written to before."""
    log = new_log(MemoryFiles(), "/data")
    append(log, FIRST)
    return log


def test_the_log_knows_nothing_of_it_before_it_is_taken_in(log: Log) -> None:
    ahead = Ahead(log).run()
    assert (log.end_offset, log.size_bytes, offsets(read_all(log))) == (2, len(FIRST), [0, 1])
    assert not ahead.begun.over.is_set()
    ahead.begun.settle()
    assert ahead.outcome is not None
    assert (ahead.outcome.first_offset, ahead.outcome.last_offset) == (2, 4)
    assert (log.end_offset, log.ahead, ahead.begun.over.is_set()) == (5, None, True)
    assert values(log) == [b"first"] * 2 + [bytes(500)] * 3


@pytest.mark.parametrize("times", ["CreateTime", "LogAppendTime"])
def test_it_leaves_the_very_files_that_an_append_leaves(tmp_path: Path, times: str) -> None:
    contents = []
    for name in ("at-once", "ahead"):
        logs = open_logs(OS, str(tmp_path / name), message_timestamp_type=times, index_interval_bytes=100)
        log = made(logs, message_timestamp_type=times, index_interval_bytes=100)
        append(log, FIRST)
        for _ in range(3):
            if name == "ahead":
                Ahead(log, epoch=1).run().begun.settle() if log.epochs.latest == 1 else append(log, LARGE, epoch=1)
            else:
                append(log, LARGE, epoch=1)
        logs.close()
        contents.append(
            {path.name: path.read_bytes() for path in sorted((tmp_path / name / str(TP)).iterdir()) if path.is_file()}
        )
    assert contents[0] == contents[1]
    assert len(contents[0]["00000000000000000000.log"]) == len(FIRST) + 3 * len(LARGE)


def test_the_log_s_own_time_is_stamped_once(log: Log) -> None:
    log.config = config(message_timestamp_type="LogAppendTime")
    ahead = Ahead(log, batch(3, timestamp=5)).run()
    ahead.begun.settle()
    piece = log.read(2, 10_000, log.end_offset)
    assert piece is not None
    data = piece.read()
    header = header_at(data)
    assert crc_holds(data, 0, header)
    assert header.attributes & LOG_APPEND_TIME
    assert header.max_timestamp == NOW_MS


def test_whoever_appends_meanwhile_comes_behind_it(log: Log) -> None:
    ahead = Ahead(log)
    assert append(log, LATER).first_offset == 5
    assert ahead.outcome is not None
    ahead.run()  # The thread comes late, and finds nothing to do.
    ahead.begun.settle()
    assert values(log) == [b"first"] * 2 + [bytes(500)] * 3 + [b"later"]
    log.close()
    assert log.directory.files.size(f"{log.folder}/00000000000000000000.log") == log.size_bytes


@pytest.mark.parametrize(
    ("act", "end_offset"),
    [
        (lambda log: log.roll(NOW_MS), 5),
        (lambda log: log.close(), 5),
        (lambda log: log.truncate_to(2), 2),
        (lambda log: log.truncate_to(9), 5),
        (lambda log: log.restart_at(7), 7),
        (lambda log: log.delete(), 5),
    ],
    ids=["roll", "close", "cut", "cut nothing", "restart", "delete"],
)
@pytest.mark.parametrize("is_run", [True, False], ids=["written", "not written yet"])
def test_it_is_in_the_log_before_anything_else_is_done_to_the_end(
    log: Log, act: Callable[[Log], None], end_offset: int, is_run: bool
) -> None:
    ahead = Ahead(log)
    if is_run:
        ahead.run()
    act(log)
    assert ahead.outcome is not None
    assert ahead.outcome.last_offset == 4
    assert (log.end_offset, log.ahead) == (end_offset, None)


def test_what_has_had_its_time_does_not_take_it_along(log: Log) -> None:
    """Everything there was has expired when it is taken in."""
    log.config = config(retention_ms=1_000, segment_ms=10**9)
    late = batch(3, timestamp=NOW_MS + 5_000, value=bytes(500))
    ahead = Ahead(log, late).run()
    log.enforce_retention(NOW_MS + 5_500, log.end_offset)
    assert ahead.outcome is not None
    assert (log.start_offset, log.end_offset) == (0, 5), "its segment holds a record that has time left"
    log.enforce_retention(NOW_MS + 9_000, log.end_offset)
    assert log.start_offset == 5


def test_a_copy_has_it_before_it_takes_the_log_s_place() -> None:
    files = MemoryFiles()
    logs = open_logs(files, "/one", "/two")
    log = made(logs)
    append(log, FIRST)
    other = next(each for each in logs.directories if each is not log.directory)
    copy = Copy(log, other)
    Ahead(log).run()
    copy.finish()
    assert copy.log.end_offset == log.end_offset == 5


def test_the_loop_waits_for_a_thread_that_is_writing(tmp_path: Path) -> None:
    log = new_log(OS, str(tmp_path))
    append(log, FIRST)
    file = log.segments.active.writer()
    began, go_on = threading.Event(), threading.Event()

    class Slow(type(file)):  # type: ignore[misc]
        def append(self, data: Buffer, *, counts: bool = True) -> None:
            if not counts:
                began.set()
                assert go_on.wait(60)
            super().append(data, counts=counts)

    log.segments.active.file = Slow(file.path, os.dup(file.fileno()))
    ahead = Ahead(log)
    thread = threading.Thread(target=ahead.run)
    thread.start()
    assert began.wait(60)
    threading.Timer(0.05, go_on.set).start()
    assert append(log, LATER).first_offset == 5
    assert go_on.is_set(), "the thread had to end first"
    thread.join()
    assert values(log) == [b"first"] * 2 + [bytes(500)] * 3 + [b"later"]
    log.close()


def test_a_follower_s_batches_come_behind_it(log: Log) -> None:
    Ahead(log)
    sent = batch(1, value=b"sent")
    append(twin := new_log(MemoryFiles(), "/data"), FIRST)
    append(twin, LARGE)
    append(twin, sent)
    piece = twin.read(5, 10_000, 6)
    assert piece is not None
    log.append_as_follower(memoryview(piece.read()))
    assert values(log) == values(twin)


@pytest.mark.parametrize("changes", [{"segment_bytes": len(LARGE)}, {"segment_ms": 500}], ids=["full", "of age"])
def test_what_begins_a_segment_is_not_written_ahead(log: Log, changes: dict[str, int]) -> None:
    log.config = config(**changes)
    late = batch(3, timestamp=NOW_MS + 1_000, value=bytes(500))
    assert Ahead(log, late).write is None
    append(log, late)
    assert len(log.segments) == 2


def test_the_first_batch_after_a_start_is_not_written_ahead() -> None:
    files = MemoryFiles()
    logs = open_logs(files, "/data")
    append(made(logs), FIRST)
    logs.close()
    assert Ahead(made(open_logs(files, "/data"))).write is None


def test_what_is_refused_or_a_repeat_is_not_written_at_all(log: Log) -> None:
    append(log, idempotent(0))
    size = log.directory.files.size(f"{log.folder}/00000000000000000000.log")
    assert Ahead(log, idempotent(0)).write is None
    with pytest.raises(ProtocolError) as refused:
        Ahead(log, idempotent(5))
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.directory.files.size(f"{log.folder}/00000000000000000000.log") == size


def test_what_is_refused_after_all_is_gone_for_good(log: Log) -> None:
    files = log.directory.files
    assert isinstance(files, MemoryFiles)
    files.sync_folder("/")
    log.flush()
    ahead = Ahead(log).run()
    log.segments.active.writer().flush()  # As the system does when it likes.
    log.config = config(max_message_bytes=100)
    ahead.begun.settle()
    assert ahead.refusal is not None
    assert ahead.refusal.code is ErrorCode.MESSAGE_TOO_LARGE
    path = f"{log.folder}/00000000000000000000.log"
    assert (log.end_offset, log.ahead, files.size(path)) == (2, None, len(FIRST))
    assert files.is_durable(path), "a loss of power does not bring it back"
    append(log, LATER)
    assert values(log) == [b"first", b"first", b"later"]


def test_what_got_another_place_since_is_written_there(log: Log) -> None:
    ahead = Ahead(log).run()
    ahead._epoch = 4
    ahead.begun.settle()
    piece = log.read(2, 10_000, log.end_offset)
    assert piece is not None
    assert header_at(piece.read()).leader_epoch == 4
    assert values(log) == [b"first"] * 2 + [bytes(500)] * 3


def test_a_file_that_was_closed_for_want_of_descriptors_is_opened_again(log: Log) -> None:
    ahead = Ahead(log).run()
    log.segments.active.release()
    ahead.begun.settle()
    append(log, LATER)
    assert values(log) == [b"first"] * 2 + [bytes(500)] * 3 + [b"later"]
    assert log.directory.files.size(f"{log.folder}/00000000000000000000.log") == log.size_bytes


def test_a_disk_that_is_full_refuses_it_and_keeps_what_was_there(log: Log) -> None:
    files = log.directory.files
    assert isinstance(files, MemoryFiles)
    ahead = Ahead(log)
    files.fail("append", errno.ENOSPC)
    ahead.run()
    ahead.begun.settle()
    assert ahead.refusal is not None
    assert ahead.refusal.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.is_offline
    files.heal()
    assert files.size(f"{log.folder}/00000000000000000000.log") == len(FIRST)


def test_a_disk_that_cannot_drop_what_was_refused_is_offline(log: Log) -> None:
    files = log.directory.files
    assert isinstance(files, MemoryFiles)
    ahead = Ahead(log).run()
    log.config = config(max_message_bytes=100)
    files.fail("truncate")
    ahead.begun.settle()
    assert log.is_offline
    assert log.ahead is None
