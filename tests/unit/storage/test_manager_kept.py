"""What the log directories still have of all that they were given, and who may have lost some of it."""

import errno
import os
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from millstream.model.errors import ProtocolError
from millstream.storage.directory import DirectoryError
from millstream.storage.manager import Logs
from millstream.storage.moving import Copy
from tests.simulation.files import MemoryFiles
from tests.unit.storage.ground import DEFAULTS, OS, TOPIC_ID, TP, SetClock, append, batch, made, open_logs, tp


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
        "no folder": lambda segment: shutil.rmtree(segment.parent),
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
    assert found is None or found.end_offset < log.end_offset


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


def _move(logs: Logs) -> None:
    copy = Copy(made(logs), next(each for each in logs.directories if each is not made(logs).directory))
    copy.finish()
    logs.replace(copy)


@pytest.mark.parametrize(
    "leave",
    {
        "deleted": lambda logs: logs.delete(TP),
        "deleted and made anew": lambda logs: (logs.delete(TP), made(logs)),
        "set aside": lambda logs: logs.set_aside(TP),
        "set aside for a namesake": lambda logs: logs.get(TP, bytes(reversed(TOPIC_ID))),
        "moved": _move,
    }.items(),
    ids=lambda it: it[0],
)
@pytest.mark.parametrize("is_noted", [False, True])
def test_a_log_that_left_its_folder_before_the_clean_stop_is_not_missed(
    leave: tuple[str, Callable[[Logs], object]], is_noted: bool
) -> None:
    files = MemoryFiles()
    logs = open_logs(files, "/a", "/b")
    logs.losses_are_known()
    append(made(logs), batch(3))
    made(logs).flush()
    if is_noted:
        logs.checkpoint({TP: 3})
    leave[1](logs)
    logs.close()
    assert open_logs(files, "/a", "/b").has_kept


@pytest.mark.parametrize(("kept", "has_kept"), [(3, True), (2, False)])
def test_a_folder_that_was_taken_to_another_directory_after_the_clean_stop_is_missed_only_as_far_as_it_is_cut(
    tmp_path: Path, kept: int, has_kept: bool
) -> None:
    paths = str(tmp_path / "a"), str(tmp_path / "b")
    logs = open_logs(OS, *paths)
    logs.losses_are_known()
    for _ in range(3):
        append(made(logs), batch())
    logs.close()
    (tmp_path / "a" / "orders-0").rename(tmp_path / "b" / "orders-0")
    (segment,) = tmp_path.glob("b/*/*.log")
    os.truncate(segment, segment.stat().st_size * kept // 3)
    assert open_logs(OS, *paths).has_kept is has_kept


def test_a_copy_that_was_on_its_way_when_kafka_stopped_is_not_missed(tmp_path: Path) -> None:
    """Kafka notes how far it came, as if it were the log of its directory."""
    paths = str(tmp_path / "a"), str(tmp_path / "b")
    logs = open_logs(OS, *paths)
    logs.losses_are_known()
    append(made(logs), batch(3))
    logs.close()
    (tmp_path / "b" / f"orders-0.{'0' * 32}-future").mkdir()
    (tmp_path / "b" / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 2\n")
    assert open_logs(OS, *paths).has_kept


def test_a_folder_is_missed_beside_a_namesake_that_lay_on_a_disk_nobody_closed() -> None:
    files = MemoryFiles()
    logs = open_logs(files, "/a", "/b")
    logs.losses_are_known()
    append(logs.create(tp(1), TOPIC_ID, DEFAULTS), batch())
    append(logs.create(TP, TOPIC_ID, DEFAULTS), batch(9))
    with files.failing("append", errno.ENOSPC, "/b/*"), pytest.raises(ProtocolError):
        append(made(logs), batch())
    assert logs.get(TP, bytes(reversed(TOPIC_ID))) is None
    append(made(logs), batch(3))
    assert made(logs).directory.path == "/a"
    logs.close()
    files.remove_tree("/a/orders-0")
    assert not open_logs(files, "/a", "/b").has_kept


class Killed(Exception):
    """The process ends here."""


class MortalFiles(MemoryFiles):
    """Whoever uses them is killed once so many calls were made."""

    calls_left: int | None = None

    def strike(self, operation: str, path: str) -> int | None:
        if self.calls_left == 0:
            raise Killed
        if self.calls_left is not None:
            self.calls_left -= 1
        return super().strike(operation, path)


SEGMENT = f"/a/orders-0/{0:020d}.log"
FAR_SEGMENT = f"/a/orders-0/{9:020d}.log"


def _tear(files: MemoryFiles) -> None:
    segment = files.open(SEGMENT, writable=True)
    segment.truncate(segment.size - 3)
    segment.flush()


def _stopped(files: MemoryFiles, *, is_clean: bool) -> None:
    logs = open_logs(files, "/a", "/b")
    logs.losses_are_known()
    for index in range(4):
        log = logs.create(tp(index), TOPIC_ID, DEFAULTS)
        for _ in range(3):
            append(log, batch())
    if is_clean:
        logs.close()
    files.kill()


@pytest.mark.parametrize(
    ("is_clean", "damage", "has_kept"),
    [
        pytest.param(True, _tear, False, id="a torn end after a clean stop"),
        pytest.param(True, lambda files: files.remove(SEGMENT), False, id="no segment after a clean stop"),
        pytest.param(True, lambda files: files.remove_tree("/a/orders-0"), False, id="no folder after a clean stop"),
        pytest.param(True, lambda files: None, True, id="all after a clean stop"),
        pytest.param(False, lambda files: files.damage(SEGMENT, 100, b"xyz"), False, id="damage after a kill"),
        pytest.param(False, lambda files: files.replace(FAR_SEGMENT, b""), False, id="a gap after a kill"),
        pytest.param(False, _tear, True, id="a torn end after a kill"),
    ],
)
def test_what_a_start_finds_lost_is_lost_for_the_next_one_too_wherever_it_was_killed(
    is_clean: bool, damage: Callable[[MemoryFiles], object], has_kept: bool
) -> None:
    is_through, calls = False, 0
    while not is_through:
        files = MortalFiles()
        _stopped(files, is_clean=is_clean)
        damage(files)
        files.calls_left = calls
        with suppress(Killed):
            open_logs(files, "/a", "/b")
            is_through = True
        files.calls_left = None
        files.kill()
        assert open_logs(files, "/a", "/b").has_kept is has_kept, f"killed before call {calls}"
        calls += 1


@pytest.mark.parametrize(
    ("is_clean", "damage"),
    [
        pytest.param(True, _tear, id="a torn end after a clean stop"),
        pytest.param(True, lambda files: files.remove_tree("/a/orders-0"), id="no folder after a clean stop"),
        pytest.param(False, lambda files: files.damage(SEGMENT, 100, b"xyz"), id="damage after a kill"),
    ],
)
def test_a_loss_that_a_full_disk_has_no_room_to_note_is_found_again(
    is_clean: bool, damage: Callable[[MemoryFiles], object]
) -> None:
    files = MemoryFiles()
    _stopped(files, is_clean=is_clean)
    damage(files)
    with files.failing("replace", errno.ENOSPC, "*/.millstream_kept"), pytest.raises(DirectoryError, match="No space"):
        open_logs(files, "/a", "/b")
    files.kill()
    assert not open_logs(files, "/a", "/b").has_kept


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
