"""The operating system's files, as storage uses them."""

from pathlib import Path

import pytest

from millstream.storage import files
from millstream.storage.files import OsFiles
from millstream.storage.open_files import OpenFiles

FILES = OsFiles()


def test_a_file_grows_at_its_end_and_is_read_anywhere(tmp_path: Path) -> None:
    file = FILES.open(str(tmp_path / "x"), create=True)
    file.append(b"hello ")
    file.append(memoryview(b"world"))
    assert (file.size, file.read(6, 5), file.read(9, 100)) == (11, b"world", b"ld")
    file.truncate(5)
    file.append(b"!")
    assert file.read(0, 100) == b"hello!"
    assert file.is_cached(0, 6)


def test_what_was_let_go_is_read_again(tmp_path: Path) -> None:
    file = FILES.open(str(tmp_path / "x"), create=True)
    data = bytes(range(256)) * 4096
    file.append(data)
    file.let_go(0, 512 * 1024)  # Not on the disk yet: it may not leave.
    file.flush()
    file.let_go(512 * 1024, 2 * len(data))
    assert file.read(0, 2 * len(data)) == data
    file.append(b"!")
    file.flush()
    file.let_go(0, file.size)
    assert file.is_cached(file.size - 1, 1)  # Or the next append would have to read it.


def test_a_small_file_is_replaced_whole(tmp_path: Path) -> None:
    path = str(tmp_path / "x")
    FILES.replace(path, b"one")
    FILES.replace(path, b"2")
    assert FILES.read(path) == b"2"
    assert FILES.list(str(tmp_path)) == ["x"]


def test_a_lock_is_held_until_let_go(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    held = FILES.lock(path)
    assert held is not None
    assert FILES.lock(path) is None
    held.close()  # type: ignore[attr-defined]
    again = FILES.lock(path)
    assert again is not None
    again.close()  # type: ignore[attr-defined]


def test_removing_what_is_gone_is_fine(tmp_path: Path) -> None:
    FILES.remove(str(tmp_path / "x"))
    FILES.remove_tree(str(tmp_path / "y"))


def test_few_files_stay_open_and_slices_outlive_their_place(tmp_path: Path) -> None:
    kept = OpenFiles(FILES, limit=2)
    for name in "abc":
        (tmp_path / name).write_text(name)
    first = kept.get(str(tmp_path / "a"))
    assert kept.get(str(tmp_path / "a")) is first
    kept.get(str(tmp_path / "b"))
    kept.get(str(tmp_path / "c"))
    assert first.read(0, 1) == b"a"
    assert kept.get(str(tmp_path / "a")) is not first
    kept.forget_folder(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        kept.get(str(tmp_path / "d"))


def test_a_volume_is_synced_and_one_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    FILES.sync_volume(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        FILES.sync_volume(str(tmp_path / "missing"))


@pytest.mark.skipif(files.begin_writing is None, reason="the system has no sync_file_range")
def test_a_long_flush_goes_in_steps_and_begins_where_the_last_one_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, ranges = files.begin_writing, []
    assert begin is not None

    def noting(fd: int, position: int, length: int, flags: int) -> int:
        assert begin(fd, position, length, flags) == 0
        ranges.append((position, length))
        return 0

    monkeypatch.setattr(files, "begin_writing", noting)
    step = files.FLUSH_STEP_BYTES
    file = OsFiles().open(str(tmp_path / "file"), create=True)
    file.append(b"x" * 1000)
    file.flush()
    assert ranges == [], "what is short goes in one"
    file.append(bytes(3 * step))
    file.flush()
    assert ranges == [(1000, step), (1000 + step, step)]
    file.append(b"y" * (step + 1))
    file.truncate(1000)
    file.append(bytes(step + 5))
    file.flush()
    assert ranges[2:] == [(1000, step)], "what was cut is written anew"
    file.close()
