"""Which leader wrote which offsets."""

import random
from dataclasses import dataclass

import pytest

from millstream.model.errors import ErrorCode, ProtocolError
from millstream.storage.directory import LogDirectory
from millstream.storage.leader_epochs import LeaderEpochs
from tests.simulation.files import MemoryFiles
from tests.unit.storage.ground import SetClock, append, batch, made, new_log, open_logs

PATH = "/data/leader-epoch-checkpoint"


@dataclass
class End:
    end_offset: int = 100


def epochs(*entries: tuple[int, int], files: MemoryFiles | None = None) -> LeaderEpochs:
    files = files or MemoryFiles()
    files.make_folder("/data")
    known = LeaderEpochs(LogDirectory("/data", files, SetClock(), random.Random(0)), PATH, End())
    for epoch, start_offset in entries:
        known.assign(epoch, start_offset)
    return known


def test_an_epoch_ends_where_the_next_begins_and_the_last_with_the_log() -> None:
    known = epochs((0, 0), (2, 10), (5, 40))
    assert known.end_offset_for(0) == (0, 10)
    assert known.end_offset_for(2) == (2, 40)
    assert known.end_offset_for(5) == (5, 100)


def test_an_epoch_that_is_missing_is_answered_with_the_one_before_it() -> None:
    known = epochs((0, 0), (2, 10), (5, 40))
    assert known.end_offset_for(4) == (2, 40)
    assert known.end_offset_for(1) == (0, 10)


def test_an_epoch_older_than_all_ends_where_the_oldest_begins() -> None:
    assert epochs((3, 25)).end_offset_for(1) == (1, 25)


def test_an_epoch_newer_than_all_is_unknown() -> None:
    assert epochs((3, 25)).end_offset_for(4) == (-1, -1)
    assert epochs().end_offset_for(0) == (-1, -1)
    assert epochs((3, 25)).end_offset_for(-1) == (-1, -1)


def test_an_epoch_is_assigned_once() -> None:
    known = epochs((1, 0), (1, 7), (0, 9))
    assert known.entries == [(1, 0)]


def test_an_epoch_without_records_gives_way() -> None:
    assert epochs((1, 0), (2, 10), (3, 10)).entries == [(1, 0), (3, 10)]


def test_every_offset_has_its_epoch() -> None:
    known = epochs((1, 5), (2, 10))
    assert [known.epoch_at(offset) for offset in (4, 5, 9, 10, 99)] == [-1, 1, 1, 2, 2]


def test_a_cut_at_the_end_forgets_epochs_that_began_there_or_later() -> None:
    known = epochs((1, 0), (2, 10), (3, 20))
    known.truncate_from(10)
    assert (known.entries, known.latest) == ([(1, 0)], 1)
    known.truncate_from(0)
    assert (known.entries, known.latest) == ([], -1)


def test_a_cut_at_the_start_moves_the_epoch_that_wrote_it() -> None:
    known = epochs((1, 0), (2, 10), (3, 20))
    known.truncate_before(15)
    assert known.entries == [(2, 15), (3, 20)]
    known.truncate_before(20)
    assert known.entries == [(3, 20)]


def test_a_change_is_written_before_the_log_grows_and_outlives_the_process() -> None:
    files = MemoryFiles()
    known = epochs((1, 0), (2, 10), (3, 20), files=files)
    known.truncate_from(20)
    known.rewrite()
    files.kill()
    again = epochs(files=files)
    again.load()
    assert (again.entries, again.latest) == ([(1, 0), (2, 10)], 2)


def test_a_disk_that_fails_takes_the_directory_offline() -> None:
    files = MemoryFiles()
    known = epochs((1, 0), files=files)
    with files.failing("append"), pytest.raises(ProtocolError) as raised:
        known.rewrite()
    assert raised.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_leading_without_writing_leaves_no_file() -> None:
    """Thousands of partitions that nobody writes to cost nothing when their leader changes."""
    files = MemoryFiles()
    files.make_folder("/data")
    log = new_log(files, "/data")
    log.epochs.assign(7, 0)
    assert not files.exists(log.epochs.path)
    append(log, batch(), epoch=7)
    assert files.exists(log.epochs.path)


def test_an_epoch_that_was_cut_off_does_not_come_back() -> None:
    """The log is cut below an epoch, grows past its start under an older one, and the process is killed."""
    files = MemoryFiles()
    files.make_folder("/data")
    logs = open_logs(files, "/data")
    log = made(logs)
    append(log, batch(5), epoch=1)
    append(log, batch(5), epoch=2)
    log.truncate_to(5)
    for offset in (5, 7, 9):
        log.append_as_follower(memoryview(batch(2, base_offset=offset, leader_epoch=1)))
    files.kill()
    again = made(open_logs(files, "/data"))
    assert (again.end_offset, again.epochs.entries) == (11, [(1, 0)])
