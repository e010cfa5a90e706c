"""What the log directories still have of all that they were given, and who may have lost some of it."""

import errno
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from millstream.model.errors import ProtocolError
from millstream.storage.directory import DirectoryError
from millstream.storage.manager import Logs
from tests.simulation.files import MemoryFiles
from tests.unit.storage.ground import DEFAULTS, OS, TOPIC_ID, SetClock, append, batch, open_logs, tp


def test_what_a_killed_broker_wrote_is_kept_while_the_machine_runs() -> None:
    files = MemoryFiles()
    assert not open_logs(files, "/a", "/b").has_kept, "an empty disk may be one that was wiped"
    files.kill()
    logs = open_logs(files, "/a", "/b")
    assert not logs.has_kept, "nobody has heard yet"
    logs.losses_are_known()
    files.kill()
    assert open_logs(files, "/a", "/b").has_kept
    files.crash()
    assert not open_logs(files, "/a", "/b").has_kept


def test_a_clean_stop_keeps_everything_over_a_loss_of_power() -> None:
    files = MemoryFiles()
    logs = open_logs(files, "/a")
    logs.losses_are_known()
    logs.close()
    files.crash()
    assert open_logs(files, "/a").has_kept


def test_a_clean_stop_does_not_make_good_what_was_lost_before() -> None:
    files = MemoryFiles()
    open_logs(files, "/a").losses_are_known()
    files.crash()
    open_logs(files, "/a").close()
    assert not open_logs(files, "/a").has_kept


@pytest.mark.parametrize(("error", "has_kept"), [(errno.EIO, False), (errno.ENOSPC, True)])
def test_a_disk_that_failed_may_have_lost_something_and_a_full_one_has_not(error: int, has_kept: bool) -> None:
    files = MemoryFiles()
    logs = open_logs(files, "/a", "/b")
    logs.losses_are_known()
    log = logs.create(tp(0), TOPIC_ID, DEFAULTS)
    with files.failing("append", error, "/a/*"), pytest.raises(ProtocolError):
        append(log, batch())
    files.kill()
    assert open_logs(files, "/a", "/b").has_kept is has_kept


@pytest.mark.parametrize(("operation", "path"), [("*", "/a/*-0/*"), ("lock", "/a/*")])
def test_a_disk_that_is_full_when_it_is_opened_has_lost_nothing_either(operation: str, path: str) -> None:
    """However often it is tried: the start that finds room again finds all there was."""
    files = MemoryFiles()
    logs = open_logs(files, "/a")
    logs.losses_are_known()
    append(logs.create(tp(0), TOPIC_ID, DEFAULTS), batch())
    for _ in range(2):
        files.kill()
        with files.failing(operation, errno.ENOSPC, path), pytest.raises(DirectoryError, match="no log directory"):
            open_logs(files, "/a")
    files.kill()
    assert open_logs(files, "/a").has_kept


def test_one_full_disk_among_others_does_not_have_the_broker_count_as_one_that_lost_something() -> None:
    files = MemoryFiles()
    logs = open_logs(files, "/a", "/b")
    logs.losses_are_known()
    for index in range(2):
        append(logs.create(tp(index), TOPIC_ID, DEFAULTS), batch())
    files.kill()
    with files.failing("*", errno.ENOSPC, "/a/*-0/*"):
        logs = open_logs(files, "/a", "/b")
    assert [directory.failure is None for directory in logs.directories] == [False, True]
    assert logs.has_kept


def test_what_lay_in_a_directory_that_was_taken_away_is_missed() -> None:
    files = MemoryFiles()
    logs = open_logs(files, "/a", "/b")
    logs.losses_are_known()
    logs.close()
    assert not open_logs(files, "/a").has_kept


def test_whole_batches_that_are_damaged_are_missed_and_a_torn_one_is_not(tmp_path: Path) -> None:
    def reopened(damage: Callable[[Path], object]) -> bool:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        logs = open_logs(OS, str(folder))
        logs.losses_are_known()
        log = logs.create(tp(0), TOPIC_ID, DEFAULTS)
        for _ in range(3):
            append(log, batch())
        for directory in logs.directories:
            directory.unlock()
        (segment,) = folder.glob("*/*.log")
        damage(segment)
        return open_logs(OS, str(folder)).has_kept

    assert reopened(lambda segment: os.truncate(segment, segment.stat().st_size - 3))
    assert not reopened(lambda segment: segment.write_bytes(segment.read_bytes()[:-3] + b"xyz"))
    assert not reopened(lambda segment: segment.write_bytes(b"?" * 200 + segment.read_bytes()[200:]))


@pytest.mark.parametrize(
    "damage",
    {
        "a torn end": lambda segment: os.truncate(segment, segment.stat().st_size - 3),
        "a last batch that is missing": lambda segment: os.truncate(segment, segment.stat().st_size * 2 // 3),
        "no batch": lambda segment: os.truncate(segment, 0),
        "no segment": os.remove,
    }.items(),
    ids=lambda it: it[0],
)
def test_who_stopped_cleanly_had_all_and_misses_what_is_not_there(
    tmp_path: Path, damage: tuple[str, Callable[[Path], object]]
) -> None:
    logs = open_logs(OS, str(tmp_path))
    logs.losses_are_known()
    log = logs.create(tp(0), TOPIC_ID, DEFAULTS)
    for _ in range(3):
        append(log, batch())
    logs.close()
    (segment,) = tmp_path.glob("*/*.log")
    damage[1](segment)
    again = open_logs(OS, str(tmp_path))
    assert not again.has_kept
    found = again.get(tp(0))
    assert found is not None
    assert found.end_offset < log.end_offset


def test_who_stopped_cleanly_and_finds_all_misses_nothing(tmp_path: Path) -> None:
    logs = open_logs(OS, str(tmp_path))
    logs.losses_are_known()
    full, cut, _ = (logs.create(tp(index), TOPIC_ID, DEFAULTS) for index in range(3))
    for log in (full, cut):
        for _ in range(3):
            append(log, batch())
        log.flush()
    cut.truncate_to(1)
    logs.close()
    assert open_logs(OS, str(tmp_path)).has_kept


def test_directories_of_an_earlier_life_than_the_last_that_is_known_have_not_kept_everything() -> None:
    files = MemoryFiles()

    def reopened(last_life: int | None) -> Logs:
        files.kill()
        logs = Logs(files, SetClock(), ["/a"], lambda _: DEFAULTS, random.Random(0))
        logs.open(last_life)
        return logs

    first = reopened(None)
    first.losses_are_known()
    assert first.life == 1
    copy = files.read("/a/.millstream_kept")
    assert reopened(None).has_kept, "it ended before it was counted"
    second = reopened(1)
    assert (second.has_kept, second.life) == (True, 2)
    assert reopened(1).has_kept, "that one ended before it was counted"
    third = reopened(2)
    assert (third.has_kept, third.life) == (True, 3)
    files.replace("/a/.millstream_kept", copy)
    assert not reopened(3).has_kept, "a copy of the first life was brought back"
    files.remove("/a/.millstream_kept")
    files.replace("/a/.kafka_cleanshutdown", b"")
    assert not reopened(4).has_kept, "one of the days before lives were counted"
