"""How far compaction came, as the cleaner knows it and writes it down, whatever becomes of the log meanwhile."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from millstream.config.broker import BrokerConfig
from millstream.storage.cleaner import Cleaner
from tests.simulation.files import MemoryFiles
from tests.unit.storage.cleaning import COMPACT, Ground, content, fill, put
from tests.unit.storage.ground import TP, Here, SetClock, made, open_logs


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    """Logs in a folder, closed when the test ends."""
    ground = Ground(tmp_path)
    yield ground
    ground.logs.close()


def test_the_checkpoint_says_how_far_it_came_and_a_restart_goes_on_from_there(ground: Ground) -> None:
    log = ground.log()
    fill(log)
    ground.clean()
    cleaned_to = log.segments.active.base_offset
    assert Path(ground.path, "cleaner-offset-checkpoint").read_text() == f"0\n1\norders 0 {cleaned_to}\n"
    before = content(log)
    ground.logs.close()
    ground.open()
    assert content(ground.log()) == before
    assert ground.clean() == 0
    fill(ground.log())
    assert ground.clean() == 1
    assert ground.workers.jobs[-1].first_dirty_offset == cleaned_to


def test_the_checkpoint_is_not_ahead_of_the_segments_it_speaks_of() -> None:
    files = MemoryFiles(Random(1))
    files.make_folder("/data")
    logs = open_logs(files, "/data", **COMPACT)
    log = made(logs, **COMPACT)
    fill(log)
    log.flush()
    cleaner = Cleaner(logs, Here(), SetClock(), Random(5), lambda: BrokerConfig.load(None, {}, {}), lambda _: 1 << 60)
    with files.failing("replace", path="*cleaner-offset-checkpoint"):
        asyncio.run(cleaner.clean())
    compacted = [segment.path for segment in log.segments][:-1]
    assert len(compacted) < 10
    assert all(files.is_durable(path) for path in compacted)


def test_a_cut_log_is_dirty_from_the_cut_on(ground: Ground) -> None:
    log = ground.log()
    fill(log)
    ground.clean()
    log.truncate_to(50)
    fill(log, rounds=100)
    assert ground.clean() == 1
    assert ground.workers.jobs[-1].first_dirty_offset <= 50


def test_a_cut_is_not_forgotten_by_a_crash(ground: Ground) -> None:
    log = ground.log()
    fill(log)
    ground.clean()
    log.truncate_to(50)
    fill(log, rounds=100)
    log.flush()
    ground.kill()
    assert ground.clean() == 1
    assert ground.workers.jobs[-1].first_dirty_offset <= 50


def test_a_log_that_a_crash_left_shorter_than_was_noted_is_dirty_however_long_it_grows(ground: Ground) -> None:
    log = ground.log()
    fill(log)
    ground.clean()
    noted = Path(ground.path, "cleaner-offset-checkpoint").read_text()
    log.truncate_to(50)
    Path(ground.path, "cleaner-offset-checkpoint").write_text(noted)
    ground.kill()
    fill(ground.log(), rounds=100)
    assert ground.clean() == 1
    assert ground.workers.jobs[-1].first_dirty_offset == 0


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_log_made_anew_is_all_dirty_and_a_deleted_key_does_not_come_back(ground: Ground, is_restarted: bool) -> None:
    fill(ground.log())
    ground.clean()
    cleaned_to = ground.log().segments.active.base_offset
    ground.logs.delete(TP)
    if is_restarted:
        ground.kill()
    log = ground.log()
    assert Path(ground.path, "cleaner-offset-checkpoint").read_text() == "0\n0\n"
    put(log, ("gone", "1"))
    fill(log, rounds=10)
    put(log, ("gone", None))
    fill(log, rounds=80)
    assert log.segments.active.base_offset > cleaned_to
    for _ in range(2):
        ground.clean()
        ground.clock.ms += 1_001
        fill(log, rounds=80)
    ground.clean()
    assert b"gone" not in [key for _, key, _ in content(log)]


def test_a_log_made_anew_is_compacted_though_the_one_before_could_not_be(ground: Ground) -> None:
    def fail() -> None:
        raise ValueError("damaged")

    fill(ground.log())
    ground.workers.meanwhile = fail
    ground.clean()
    assert list(ground.cleaner.uncleanable) == [TP]
    ground.workers.meanwhile = lambda: None
    ground.logs.delete(TP)
    fill(ground.log())
    assert ground.clean() == 1


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_a_log_removed_right_after_its_swap_takes_no_directory_offline(ground: Ground, is_made_anew: bool) -> None:
    """The folder is about to be brought to the disk by a thread when it is renamed."""

    def remove() -> None:
        ground.logs.delete(TP)
        if is_made_anew:
            fill(ground.log())

    fill(ground.log(0))
    fill(ground.log(1))
    ground.workers.before_thread = remove
    ground.clean()
    assert ground.logs.directories[0].failure is None
    noted = Path(ground.path, "cleaner-offset-checkpoint").read_text()
    assert noted == f"0\n1\norders 1 {ground.log(1).segments.active.base_offset}\n"


def test_a_log_cut_right_after_its_swap_is_not_noted_as_cleaned(ground: Ground) -> None:
    def cut() -> None:
        log.truncate_to(50)
        fill(log, rounds=100)

    log = ground.log()
    fill(log)
    ground.workers.before_thread = cut
    ground.clean()
    assert ground.clean() == 1
    assert ground.workers.jobs[-1].first_dirty_offset == 0
