"""A log that moves to another directory, and what a crash or a failing disk in the midst of it leaves."""

import asyncio
import errno

import pytest

from millstream.model.errors import ProtocolError
from millstream.storage.log import Log
from millstream.storage.manager import Logs
from millstream.storage.moving import Copy, mark_moved
from tests.simulation.files import MemoryFiles
from tests.unit.storage.ground import TOPIC_ID, TP, Here, append, batch, made, open_logs


def moved(logs: Logs, path: str) -> Copy:
    """A finished copy of the log, which has yet to take its place."""
    directory = next(each for each in logs.directories if each.path == path)
    copy = Copy(made(logs), directory)
    asyncio.run(copy.catch_up(Here()))
    copy.finish()
    return copy


class Crash(Exception):
    """The process ends here."""


def test_a_crash_in_the_midst_of_a_move_leaves_the_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(log: Log) -> None:
        raise Crash

    files = MemoryFiles()
    logs = open_logs(files, "/a", "/b")
    append(made(logs), batch(3))
    copy = moved(logs, "/b")
    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(Log, "delete", crash)
        logs.replace(copy)
    files.kill()
    assert {"/a/orders-0/partition.metadata", "/b/orders-0/partition.metadata"} <= set(files.paths())
    logs = open_logs(files, "/a", "/b")
    log = made(logs)
    assert (log.directory.path, log.end_offset) == ("/b", 3)
    assert not files.exists("/a/orders-0")


def test_a_log_that_was_moved_off_a_failing_disk_never_counts_again_however_long_it_is() -> None:
    files = MemoryFiles()
    logs = open_logs(files, "/a", "/b")
    append(made(logs), batch(3))
    append(made(logs), batch(3))
    copy = moved(logs, "/b")
    with files.failing("rename", path="/a/orders-0"), pytest.raises(ProtocolError):
        logs.replace(copy)
    made(logs).truncate_to(3)
    files.kill()
    with files.failing("list", path="/b"):
        logs = open_logs(files, "/a", "/b")
        assert logs.get(TP, TOPIC_ID) is None, "the log lies in the directory that is offline"
    files.kill()
    logs = open_logs(files, "/a", "/b")
    log = made(logs)
    assert (log.directory.path, log.end_offset) == ("/b", 3)


def test_a_log_leaves_a_disk_that_is_full() -> None:
    files = MemoryFiles()
    logs = open_logs(files, "/a", "/b")
    append(made(logs), batch(3))
    copy = moved(logs, "/b")
    with files.failing("replace", errno.ENOSPC, path="/a/*"):
        logs.replace(copy)
    assert (made(logs).directory.path, made(logs).end_offset) == ("/b", 3)
    assert all(directory.failure is None for directory in logs.directories)


@pytest.mark.parametrize("operation", ["rename", "sync_folder"])
def test_a_move_that_fails_at_the_last_step_leaves_the_log_where_it_was(operation: str) -> None:
    files = MemoryFiles()
    logs = open_logs(files, "/a", "/b")
    append(made(logs), batch(3))
    copy = moved(logs, "/b")
    with files.failing(operation, path="/b*"), pytest.raises(ProtocolError):
        logs.replace(copy)
    append(made(logs), batch(3))
    files.kill()
    logs = open_logs(files, "/a", "/b")
    assert (made(logs).directory.path, made(logs).end_offset) == ("/a", 6)


def test_a_log_that_was_about_to_be_moved_stays_where_there_is_no_copy() -> None:
    files = MemoryFiles()
    logs = open_logs(files, "/a", "/b")
    append(made(logs), batch(3))
    mark_moved(made(logs))
    for _ in range(2):
        files.kill()
        logs = open_logs(files, "/a", "/b")
        assert (made(logs).directory.path, made(logs).end_offset) == ("/a", 3)
    assert not files.exists("/a/orders-0/.millstream_moved")
