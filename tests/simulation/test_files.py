"""The disk that simulations stand on must itself be trusted."""

import errno
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.storage.files import File, Files, OsFiles
from tests.simulation.files import SHORT, MemoryFiles
from tests.simulation.medium import PAGE_BYTES
from tests.simulation.mount import Mount


def disk(seed: int = 0) -> MemoryFiles:
    files = MemoryFiles(random.Random(seed))
    files.make_folder("/d")
    files.sync_folder("/")
    return files


def written(files: MemoryFiles, path: str, data: bytes) -> File:
    file = files.open(path, create=True)
    file.append(data)
    return file


def test_it_is_a_disk_to_the_type_checker_and_at_run_time() -> None:
    files: Files = disk()
    file: File = files.open("/d/a", create=True)
    file.append(b"hello")
    assert (file.read(1, 3), file.size, files.size("/d/a")) == (b"ell", 5, 5)
    assert files.list("/d") == ["a"]
    assert file.fileno() == -1


@pytest.mark.parametrize("seed", range(50))
def test_flushed_bytes_in_a_synced_folder_survive_every_crash(seed: int) -> None:
    files = disk(seed)
    file = written(files, "/d/a", b"kept" * 3000)
    file.flush()
    files.sync_folder("/d")
    file.append(b"lost" * 3000)
    assert not files.is_durable("/d/a")
    files.crash()
    assert files.read("/d/a").startswith(b"kept" * 3000)
    assert len(files.read("/d/a")) <= 24_000


def test_every_fate_of_unflushed_bytes_is_met() -> None:
    fates = set()
    fresh = bytes([1]) * (3 * PAGE_BYTES)
    for seed in range(300):
        files = disk(seed)
        written(files, "/d/a", fresh)
        files.sync_folder("/d")
        files.crash()
        after = files.read("/d/a")
        holed = 0 in after
        fates.add("none" if not after else "holes" if holed else "all" if after == fresh else "part")
    assert fates == {"none", "all", "part", "holes"}


def test_an_unsynced_creation_is_lost_on_some_seeds_and_kept_on_others() -> None:
    outcomes = set()
    for seed in range(50):
        files = disk(seed)
        written(files, "/d/a", b"x").flush()
        files.crash()
        outcomes.add(files.exists("/d/a"))
    assert outcomes == {True, False}


def test_an_unsynced_rename_leaves_the_old_name_or_the_new_but_never_none_or_both() -> None:
    outcomes = set()
    for seed in range(50):
        files = disk(seed)
        written(files, "/d/old", b"x").flush()
        files.sync_folder("/d")
        files.rename("/d/old", "/d/new")
        files.crash()
        outcomes.add(tuple(files.list("/d")))
    assert outcomes == {("old",), ("new",)}


def test_a_removal_may_come_undone_until_the_folder_is_synced() -> None:
    outcomes = set()
    for seed in range(50):
        files = disk(seed)
        written(files, "/d/a", b"x").flush()
        files.sync_folder("/d")
        files.remove("/d/a")
        if seed % 2:
            files.sync_folder("/d")
        files.crash()
        outcomes.add((seed % 2, files.exists("/d/a")))
    assert outcomes == {(0, True), (0, False), (1, False)}


@pytest.mark.parametrize("seed", range(30))
def test_replace_is_all_or_nothing_and_durable_on_return(seed: int) -> None:
    files = disk(seed)
    files.replace("/d/c", b"one")
    files.crash()
    assert files.read("/d/c") == b"one"
    files.fail("rename", errno.EIO)
    with pytest.raises(OSError):
        files.replace("/d/c", b"two, longer")
    files.heal()
    files.crash()
    assert files.read("/d/c") == b"one"


def test_an_unflushed_truncation_may_come_undone() -> None:
    outcomes = set()
    for seed in range(60):
        files = disk(seed)
        file = written(files, "/d/a", b"0123456789")
        file.flush()
        files.sync_folder("/d")
        file.truncate(4)
        file.append(b"ab")
        files.crash()
        outcomes.add(files.read("/d/a"))
    assert {b"0123456789", b"0123", b"0123ab"} <= outcomes
    assert all(outcome.startswith(b"0123") for outcome in outcomes)


def test_a_killed_process_loses_its_handles_and_locks_but_no_byte() -> None:
    files = disk()
    file = written(files, "/d/a", b"x")
    held = files.lock("/d/.lock")
    assert held is not None
    assert files.lock("/d/.lock") is None
    files.kill()
    with pytest.raises(OSError) as caught:
        file.append(b"y")
    assert caught.value.errno == errno.EBADF
    again = files.lock("/d/.lock")
    assert again is not None
    del held
    assert files.lock("/d/.lock") is None, "the dead holder's handle must not free the living one's lock"
    assert files.read("/d/a") == b"x"


def test_a_dead_process_cannot_reach_the_disk_by_any_call() -> None:
    files = disk()
    before: Files = Mount(files)
    before.replace("/d/a", b"x")
    files.kill()
    with pytest.raises(OSError, match="dead"):
        before.replace("/d/clean", b"")
    with pytest.raises(OSError, match="dead"):
        before.remove("/d/a")
    after: Files = Mount(files)
    assert after.list("/d") == ["a"]


def test_a_fault_strikes_where_and_as_often_as_it_was_told() -> None:
    files = disk()
    file = written(files, "/d/a.log", b"")
    files.fail("append", errno.ENOSPC, "*.log", times=2, after=1)
    file.append(b"1")
    for _ in range(2):
        with pytest.raises(OSError) as caught:
            file.append(b"never")
        assert caught.value.errno == errno.ENOSPC
        assert caught.value.filename == "/d/a.log"
    written(files, "/d/a.index", b"i")
    file.append(b"2")
    assert file.read(0, 9) == b"12"


def test_a_fault_by_chance_is_the_same_for_the_same_seed() -> None:
    def strikes(seed: int) -> list[bool]:
        files = disk(seed)
        files.fail("open", errno.EMFILE, chance=0.5)
        met = []
        for number in range(40):
            try:
                files.open(f"/d/{number}", create=True)
                met.append(False)
            except OSError as error:
                assert error.errno == errno.EMFILE
                met.append(True)
        return met

    assert strikes(1) == strikes(1)
    assert strikes(1) != strikes(2)
    assert len(set(strikes(1))) == 2


def test_a_full_disk_takes_no_part_of_an_append() -> None:
    files = disk()
    files.capacity_bytes = 10
    file = written(files, "/d/a", b"12345678")
    with pytest.raises(OSError) as caught:
        file.append(b"abc")
    assert caught.value.errno == errno.ENOSPC
    file.append(b"ab")
    assert (file.size, file.read(0, 99)) == (10, b"12345678ab")
    assert files.volume_bytes("/d") == (10, 0)


def test_short_reads_damage_and_cold_caches_can_be_asked_for() -> None:
    files = disk()
    file = written(files, "/d/a", b"12345678")
    files.damage("/d/a", 2, b"XX")
    assert file.read(0, 8) == b"12XX5678"
    with files.failing("read", SHORT):
        assert file.read(0, 8) == b"12XX"
    files.drop_caches()
    assert not file.is_cached(0, 1)
    file.read(0, 1)
    assert file.is_cached(0, 1)


def test_open_handles_are_counted() -> None:
    files = disk()
    first, second = files.open("/d/a", create=True), files.open("/d/a")
    assert files.open_count == 2
    first.close()
    del second
    assert files.open_count == 0


def test_a_folder_can_be_renamed_with_all_in_it_and_removed() -> None:
    files = disk()
    files.make_folder("/d/t-0")
    written(files, "/d/t-0/a", b"x")
    files.rename("/d/t-0", "/d/t-0.gone")
    assert files.read("/d/t-0.gone/a") == b"x"
    files.remove_tree("/d/t-0.gone")
    files.remove_tree("/d/t-0.gone")
    files.remove("/d/nothing")
    assert files.list("/d") == []


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from("abc"), st.binary(max_size=40)),
        st.tuples(st.just("truncate"), st.sampled_from("abc"), st.integers(0, 30)),
        st.tuples(st.just("rename"), st.sampled_from("abc"), st.sampled_from("abc")),
        st.tuples(st.just("remove"), st.sampled_from("abc"), st.none()),
        st.tuples(st.just("replace"), st.sampled_from("abc"), st.binary(max_size=40)),
    ),
    max_size=25,
)


@given(OPERATIONS)
def test_without_faults_it_does_what_a_real_disk_does(
    tmp_path_factory: pytest.TempPathFactory, operations: list[tuple[str, str, object]]
) -> None:
    """The same operations, side by side on the operating system's files."""
    root = str(tmp_path_factory.mktemp("disk"))
    memory, real = MemoryFiles(), OsFiles()
    memory.make_folder(root)

    def act(files: Files, name: str, path: str, argument: object) -> object:
        try:
            if name in ("append", "truncate"):
                file = files.open(path, create=True)
                getattr(file, name)(min(argument, file.size) if isinstance(argument, int) else argument)
                file.close()
                return files.read(path)
            if name == "rename":
                argument = f"{root}/{argument}"
            return getattr(files, name)(path, *([] if argument is None else [argument]))
        except OSError as error:
            return error.errno

    for name, letter, argument in operations:
        path = f"{root}/{letter}"
        assert act(memory, name, path, argument) == act(real, name, path, argument)
        assert memory.list(root) == real.list(root)
    assert {name: memory.read(f"{root}/{name}") for name in memory.list(root)} == {
        name: real.read(f"{root}/{name}") for name in real.list(root)
    }
