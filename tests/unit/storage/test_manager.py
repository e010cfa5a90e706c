"""Every log of a broker, over its directories."""

import asyncio
import errno
import os
import random
import resource
from pathlib import Path

import pytest

from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import ZERO_UUID, TopicPartition
from millstream.storage.directory import DirectoryError
from millstream.storage.flush import LOGS_TOGETHER_LEAST
from millstream.storage.manager import Logs
from millstream.storage.meta import MetaProperties
from tests.simulation.files import MemoryFiles
from tests.unit.storage.ground import (
    DEFAULTS,
    NOW_MS,
    OS,
    TOPIC_ID,
    TP,
    Here,
    SetClock,
    append,
    batch,
    config,
    made,
    offsets,
    open_logs,
    read_all,
    tp,
)


def test_a_new_log_goes_where_the_fewest_are() -> None:
    logs = open_logs(MemoryFiles(), "/a", "/b", "/c")
    for partition in range(7):
        logs.create(tp(partition), TOPIC_ID, DEFAULTS)
    assert [len(directory.logs) for directory in logs.directories] == [3, 2, 2]
    assert len(logs) == 7


def test_logs_are_found_again_with_their_topic_id(tmp_path: Path) -> None:
    logs = open_logs(OS, str(tmp_path / "a"), str(tmp_path / "b"))
    for partition in range(4):
        append(logs.create(tp(partition), TOPIC_ID, DEFAULTS), batch(partition + 1))
    logs.close()
    logs = open_logs(OS, str(tmp_path / "a"), str(tmp_path / "b"))
    for partition in range(4):
        log = made(logs, tp(partition))
        assert (log.topic_id, log.end_offset) == (TOPIC_ID, partition + 1)


def test_a_directory_another_broker_holds_is_refused_in_one_line(tmp_path: Path) -> None:
    holder = open_logs(OS, str(tmp_path / "b"))
    with pytest.raises(DirectoryError, match="in use by another broker") as refused:
        open_logs(OS, str(tmp_path / "a"), str(tmp_path / "b"))
    assert "\n" not in str(refused.value)
    holder.close()
    open_logs(OS, str(tmp_path / "a"), str(tmp_path / "b")).close()


def test_a_failed_directory_takes_only_its_partitions_offline() -> None:
    files = MemoryFiles()
    logs = open_logs(files, "/a", "/b")
    first, second = (logs.create(tp(partition), TOPIC_ID, DEFAULTS) for partition in range(2))
    with files.failing("append", errno.EIO, "/a/*"), pytest.raises(ProtocolError):
        append(first, batch())
    assert [directory.failure is not None for directory in logs.directories] == [True, False]
    append(second, batch())
    assert logs.create(tp(2), TOPIC_ID, DEFAULTS).directory.path == "/b"
    with pytest.raises(ProtocolError) as refused:
        logs.create(tp(3), TOPIC_ID, DEFAULTS, is_new=False)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(ProtocolError):
        logs.delete(first.topic_partition)
    logs.retain(NOW_MS, lambda partition: 0)
    logs.checkpoint({})
    logs.close()
    assert not files.exists("/a/.kafka_cleanshutdown")
    assert files.exists("/b/.kafka_cleanshutdown")


@pytest.mark.parametrize("operation", ["list", "open", "read"])
def test_a_directory_that_fails_while_opening_is_offline(operation: str) -> None:
    files = MemoryFiles()
    logs = open_logs(files, "/a", "/b")
    for partition in range(2):
        append(logs.create(tp(partition), TOPIC_ID, DEFAULTS), batch())
    logs.close()
    files.fail(operation, errno.EIO, "/a/*" if operation != "list" else "/a")
    logs = open_logs(files, "/a", "/b")
    assert [directory.failure is not None for directory in logs.directories] == [True, False]
    assert logs.get(tp(0)) is None
    assert logs.get(tp(1)) is not None


def test_a_broker_without_any_directory_does_not_start() -> None:
    files = MemoryFiles()
    files.fail("make_folder", errno.EACCES)
    with pytest.raises(DirectoryError, match="no log directory can be used") as refused:
        open_logs(files, "/a")
    assert "\n" not in str(refused.value)


def test_running_out_of_descriptors_gives_back_what_can_be_opened_again(tmp_path: Path) -> None:
    logs = open_logs(OS, str(tmp_path))
    kept = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 20, kept[1]))
    try:
        for partition in range(40):
            append(made(logs, tp(partition)), batch())
        for partition in range(40):
            append(made(logs, tp(partition)), batch())
            assert offsets(read_all(made(logs, tp(partition)))) == [0, 1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, kept)
    assert logs.directories[0].failure is None


def test_a_stop_brings_many_logs_to_the_disk_with_one_wait() -> None:
    files = MemoryFiles()
    logs = open_logs(files, "/a")
    for partition in range(LOGS_TOGETHER_LEAST):
        append(made(logs, tp(partition)), batch(3, producer_id=5, producer_epoch=0, base_sequence=0))
    folder_syncs = files.fail("sync_folder", 0, after=1 << 30)
    logs.close()
    assert (1 << 30) - folder_syncs.after < 10, "not one for each partition"
    assert all(files.is_durable(path) for path in files.paths())
    files.crash()
    logs = open_logs(files, "/a")
    for log in logs:
        assert (log.end_offset, log.recovery_point, len(log.producers)) == (3, 3, 1)


@pytest.mark.parametrize("operation", ["sync_volume", "flush"])
def test_a_disk_that_fails_at_the_stop_is_not_marked_clean(operation: str) -> None:
    files = MemoryFiles()
    logs = open_logs(files, "/a", "/b")
    for partition in range(2 * LOGS_TOGETHER_LEAST):
        append(made(logs, tp(partition)), batch(3))
    files.fail(operation, errno.EIO, "/a*")
    logs.close()
    assert not files.exists("/a/.kafka_cleanshutdown")
    assert files.exists("/b/.kafka_cleanshutdown")


def test_folders_that_are_no_partitions_are_ignored(tmp_path: Path) -> None:
    for name in ("lost+found", "notes", "orders", "orders-", "orders-x", "orders-0.abc-future", "-5", "a b-1"):
        (tmp_path / name).mkdir()
    (tmp_path / "orders-7").write_text("a file, not a folder")
    logs = open_logs(OS, str(tmp_path))
    assert len(logs) == 0
    assert (tmp_path / "notes").exists()


def test_folders_marked_for_deletion_are_removed(tmp_path: Path) -> None:
    clock = SetClock()
    logs = open_logs(OS, str(tmp_path), clock=clock)
    made(logs, file_delete_delay_ms=5_000)
    logs.delete(TP)
    assert logs.get(TP) is None
    assert asyncio.run(logs.delete_pending(NOW_MS + 4_999, Here())) == 0
    assert asyncio.run(logs.delete_pending(NOW_MS + 5_000, Here())) == 1
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []
    (tmp_path / "old-0.0123-delete").mkdir()
    logs.close()
    logs = open_logs(OS, str(tmp_path), clock=clock)
    assert asyncio.run(logs.delete_pending(NOW_MS, Here())) == 1


def test_a_partition_in_two_directories_keeps_the_longer_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name, count in (("a", 2), ("b", 5)):
        logs = open_logs(OS, str(tmp_path / name))
        append(made(logs), batch(count))
        logs.close()
    logs = open_logs(OS, str(tmp_path / "a"), str(tmp_path / "b"))
    assert made(logs).end_offset == 5
    assert len(logs) == 1
    assert "holds the same partition" in caplog.text
    logs.checkpoint({TP: 5})
    assert not (tmp_path / "a" / "replication-offset-checkpoint").read_text().endswith("orders 0 5\n")
    logs.close()
    assert (tmp_path / "a" / "recovery-point-offset-checkpoint").read_text() == "0\n1\norders 0 2\n"


DEAD_ID = bytes(range(16, 32))


def test_of_two_logs_of_a_partition_the_one_of_the_living_topic_counts(tmp_path: Path) -> None:
    """The longer one is a dead topic's of that name; it is kept, out of the way."""
    for name, topic_id, count in (("a", TOPIC_ID, 2), ("b", DEAD_ID, 5)):
        logs = open_logs(OS, str(tmp_path / name))
        append(logs.create(TP, topic_id, DEFAULTS), batch(count))
        logs.close()
    logs = open_logs(OS, str(tmp_path / "a"), str(tmp_path / "b"))
    log = logs.get(TP, TOPIC_ID)
    assert log is not None
    assert (log.end_offset, log.directory.path, logs.get(TP)) == (2, str(tmp_path / "a"), log)
    (stray,) = (path.name for path in (tmp_path / "b").iterdir() if path.is_dir())
    assert stray.startswith("orders-0.") and stray.endswith("-stray")
    logs.close()
    logs = open_logs(OS, str(tmp_path / "a"), str(tmp_path / "b"))
    assert [len(directory.logs) for directory in logs.directories] == [1, 0]
    assert asyncio.run(logs.delete_pending(NOW_MS * 2, Here())) == 0


def test_a_dead_topic_s_log_is_not_taken_for_a_new_one_of_the_name(tmp_path: Path) -> None:
    logs = open_logs(OS, str(tmp_path))
    append(logs.create(TP, DEAD_ID, DEFAULTS), batch(5))
    assert logs.get(TP, TOPIC_ID) is None
    assert logs.get(TP) is None
    assert logs.create(TP, TOPIC_ID, DEFAULTS).end_offset == 0
    assert logs.get(TP, TOPIC_ID) is logs.get(TP)


def test_a_log_without_an_id_gets_the_topic_s(tmp_path: Path) -> None:
    logs = open_logs(OS, str(tmp_path))
    append(logs.create(TP, ZERO_UUID, DEFAULTS), batch(5))
    log = logs.get(TP, TOPIC_ID)
    assert log is not None and (log.end_offset, log.topic_id) == (5, TOPIC_ID)
    logs.close()
    assert made(open_logs(OS, str(tmp_path))).topic_id == TOPIC_ID


def test_an_empty_log_without_an_id_does_not_hide_one_with_it() -> None:
    files = MemoryFiles()
    for path, topic_id, count in (("/a", ZERO_UUID, 9), ("/b", TOPIC_ID, 2)):
        logs = open_logs(files, path)
        append(logs.create(TP, topic_id, DEFAULTS), batch(count))
        logs.close()
    logs = open_logs(files, "/a", "/b")
    log = logs.get(TP, TOPIC_ID)
    assert log is not None and log.end_offset == 2
    logs.delete(TP)
    assert [len(directory.logs) for directory in logs.directories] == [0, 0]


def test_a_dead_topic_s_log_on_a_failed_disk_is_found_again_and_never_counts() -> None:
    files = MemoryFiles()
    logs = open_logs(files, "/a", "/b")
    dead = logs.create(TP, DEAD_ID, DEFAULTS)
    with files.failing("append", errno.EIO, "/a/*"), pytest.raises(ProtocolError):
        append(dead, batch())
    assert logs.get(TP, TOPIC_ID) is None
    append(logs.create(TP, TOPIC_ID, DEFAULTS), batch(3))
    logs.close()
    logs = open_logs(files, "/a", "/b")
    log = logs.get(TP, TOPIC_ID)
    assert log is not None and (log.end_offset, log.directory.path) == (3, "/b")
    assert any(name.endswith("-stray") for name in files.list("/a"))


def test_a_directory_that_goes_offline_is_told_of_once() -> None:
    files = MemoryFiles()
    logs = open_logs(files, "/a", "/b")
    told: list[tuple[str, list[TopicPartition]]] = []
    logs.on_failure = lambda directory: told.append((directory.path, list(directory.logs)))
    first, second = (logs.create(tp(partition), TOPIC_ID, DEFAULTS) for partition in range(2))
    with files.failing("append", errno.EIO, "/a/*"):
        for _ in range(2):
            with pytest.raises(ProtocolError):
                append(first, batch())
    append(second, batch())
    assert told == [("/a", [tp(0)])]


def test_a_folder_left_behind_is_taken_over_and_not_overwritten(tmp_path: Path) -> None:
    logs = open_logs(OS, str(tmp_path / "a"))
    append(made(logs), batch(3))
    logs.close()
    other = open_logs(OS, str(tmp_path / "b"))
    (tmp_path / "a" / "orders-0").rename(tmp_path / "b" / "orders-0")
    assert made(other).end_offset == 3


def test_a_folder_left_behind_by_a_dead_topic_is_set_aside(tmp_path: Path) -> None:
    logs = open_logs(OS, str(tmp_path / "a"))
    append(logs.create(TP, DEAD_ID, DEFAULTS), batch(3))
    logs.close()
    other = open_logs(OS, str(tmp_path / "b"))
    (tmp_path / "a" / "orders-0").rename(tmp_path / "b" / "orders-0")
    assert made(other).end_offset == 0
    assert sum(path.is_dir() for path in (tmp_path / "b").iterdir()) == 2


def test_directories_know_whose_they_are(tmp_path: Path) -> None:
    logs = open_logs(OS, str(tmp_path / "a"), str(tmp_path / "b"))
    assert logs.meta() == []
    logs.identify(1, "cluster")
    logs.identify(1, "cluster")
    first, second = logs.meta()
    assert (first.broker_id, first.cluster_id) == (1, "cluster")
    assert first.directory_id != second.directory_id
    with pytest.raises(DirectoryError, match="belongs to broker 1 of cluster cluster"):
        logs.identify(2, "cluster")
    logs.identify(1, "cluster", is_shared=True)
    assert logs.meta() == [first._replace(is_shared=True), second._replace(is_shared=True)]


def test_a_damaged_meta_file_stops_the_start_in_one_line(tmp_path: Path) -> None:
    logs = open_logs(OS, str(tmp_path))
    (tmp_path / "meta.properties").write_text("nonsense")
    with pytest.raises(DirectoryError, match=r"meta\.properties is damaged") as refused:
        logs.identify(1, "cluster")
    assert "\n" not in str(refused.value)
    assert MetaProperties(1, "c").encode()


def test_a_start_that_advanced_is_kept_by_the_next_pass(tmp_path: Path) -> None:
    logs = open_logs(OS, str(tmp_path))
    log = made(logs)
    append(log, batch(9))
    log.advance_start(4)
    asyncio.run(logs.flush_due(NOW_MS, Here(), Here()))
    for directory in logs.directories:
        directory.unlock()
    assert made(open_logs(OS, str(tmp_path))).start_offset == 4


def test_logs_are_flushed_when_it_is_time_and_the_point_is_written_down(tmp_path: Path) -> None:
    logs = open_logs(OS, str(tmp_path))
    append(made(logs), batch(9))
    assert asyncio.run(logs.flush_due(NOW_MS, Here(), Here())) == 0
    assert asyncio.run(logs.flush_due(NOW_MS + 10_000, Here(), Here())) == 1
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\norders 0 9\n"


def test_retention_runs_over_every_log_and_forgets_silent_producers(tmp_path: Path) -> None:
    logs = open_logs(OS, str(tmp_path))
    log = logs.create(TP, TOPIC_ID, config(retention_ms=10))
    append(log, batch(9, producer_id=5, producer_epoch=0, base_sequence=0))
    assert logs.retain(NOW_MS + 2 * 86_400_000, lambda partition: 9) > 0
    assert (log.start_offset, len(log.producers)) == (9, 0)


def test_a_directory_that_another_broker_has_is_not_closed_for_it(tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    holder = open_logs(OS, path)
    append(holder.create(tp(0), TOPIC_ID, DEFAULTS), batch())
    second = Logs(OS, SetClock(), [path], lambda _: DEFAULTS, random.Random(0))
    with pytest.raises(DirectoryError, match="in use"):
        second.open()
    second.close()
    assert not (tmp_path / "a" / ".kafka_cleanshutdown").exists()
