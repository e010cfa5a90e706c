"""The file behind the embedded registry: what survives, and what is refused in one line."""

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from millstream.registry import store as store_module
from millstream.registry.embedded import EmbeddedTree
from millstream.registry.store import Store
from millstream.registry.tree import Create, RegistryFailure, Set
from tests.unit.registry.backends import Threads


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "registry.db")


def test_a_closed_store_opens_again_with_everything_but_the_ephemeral(path: str) -> None:
    store = Store(path)
    store.apply([Create("/a", b"x"), Create("/a/b"), Create("/mine", ephemeral=True)], session_id=9)
    store.apply([Set("/a", b"y")], 9)
    before = store.get("/a")
    store.close()
    again = Store(path)
    assert again.get("/a") == before
    assert again.children("/") == ["a"]
    assert again.children("/a") == ["b"]
    again.close()


def test_transaction_ids_rise_across_openings(path: str) -> None:
    ids = []
    for number in range(3):
        store = Store(path)
        ids += [store.apply([Create(f"/{number}")], 0).zxid, store.apply([], 0).zxid]
        store.close()
    assert ids == sorted(set(ids))


def test_the_wal_is_moved_into_the_database_once_it_is_large(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "CHECKPOINT_BYTES", 1 << 16)
    store = Store(path)
    store.apply([Create("/a")], 0)
    for number in range(200):
        store.apply([Set("/a", bytes([number]) * 4_000)], 0)
        store.sync()
    wal_bytes = os.path.getsize(f"{path}-wal")
    store.close()
    assert wal_bytes < 1 << 18
    again = Store(path)
    assert again.get("/a").data == bytes([199]) * 4_000
    again.close()


def test_a_file_in_use_is_refused(path: str) -> None:
    store = Store(path)
    with pytest.raises(RegistryFailure, match="in use by another broker"):
        Store(path)
    store.close()
    Store(path).close()


def _is_text(path: str) -> None:
    Path(path).write_text("no database at all, though it is long enough to be taken for one\n" * 100)


def _is_foreign(path: str) -> None:
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE other (x)")
    db.close()


def _is_newer(path: str) -> None:
    Store(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()


def _has_a_damaged_page(path: str) -> None:
    store = Store(path)
    store.apply([Create(f"/{number}", b"x" * 100) for number in range(1_000)], 0)
    store.close()
    data = bytearray(Path(path).read_bytes())
    for page in range(4_096, len(data), 4_096):
        data[page : page + 64] = random.Random(page).randbytes(64)
    Path(path).write_bytes(data)


def _has_lost_its_end(path: str) -> None:
    _has_a_damaged_page(path)
    os.truncate(path, 8_192)


@pytest.mark.parametrize(
    ("spoil", "remedy"),
    [
        (_is_text, "restore the file"),
        (_is_foreign, "choose another file"),
        (_is_newer, "of version 99.*update the broker"),
        (_has_a_damaged_page, "restore the file"),
        (_has_lost_its_end, "restore the file"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_line(
    path: str, spoil: Callable[[str], None], remedy: str
) -> None:
    spoil(path)
    with pytest.raises(RegistryFailure, match=remedy) as caught:
        Store(path)
    assert str(caught.value).startswith(path)
    assert "\n" not in str(caught.value)


def test_a_folder_that_is_not_there_is_refused(path: str) -> None:
    with pytest.raises(RegistryFailure, match="cannot be opened"):
        Store(f"{path}/missing/registry.db")


WRITER = """
import sys
from millstream.registry.store import Store
from millstream.registry.tree import Create, Set
store = Store(sys.argv[1])
at = len(store.children("/"))
store.apply([Create("/session", ephemeral=True)], 7)
while True:
    store.apply([Create(f"/{at:08d}"), Create(f"/{at:08d}/child", b"x" * 500), Set(f"/{at:08d}", b"whole")], 7)
    store.sync()
    print(at, flush=True)
    at += 1
"""


def test_kill_9_while_writing_loses_nothing_acknowledged_and_keeps_transactions_whole(path: str) -> None:
    rounds = random.Random(5)
    acknowledged = -1
    for _ in range(5):
        with subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for _ in range(rounds.randrange(1, 60)):
                acknowledged = int(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL)
        store = Store(path)
        names = store.children("/")  # The dead process's ephemeral node is not among them.
        assert names == [f"{number:08d}" for number in range(len(names))]
        assert len(names) > acknowledged
        assert all(store.get(f"/{name}").data == b"whole" for name in names)
        assert all(store.children(f"/{name}") == ["child"] for name in names)
        store.close()


def test_a_failed_fsync_ends_all_writing_and_no_reading(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        tree = EmbeddedTree(path, call_soon=loop.call_soon, workers=Threads())  # type: ignore[arg-type]
        registry = tree.session()
        await registry.create("/a")

        def broken(fd: int) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(os, "fdatasync", broken)
        with pytest.raises(RegistryFailure, match="fsync failed"):
            await registry.create("/b")
        monkeypatch.undo()
        with pytest.raises(RegistryFailure, match="fsync failed"):
            await registry.create("/c")
        assert (await registry.get("/a")).version == 0
        await tree.close()

    asyncio.run(scenario())


def test_concurrent_writes_share_an_fsync(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> int:
        loop = asyncio.get_running_loop()
        tree = EmbeddedTree(path, call_soon=loop.call_soon, workers=Threads())  # type: ignore[arg-type]
        registry = tree.session()
        count = 0
        real = os.fdatasync

        def counted(fd: int) -> None:
            nonlocal count
            count += 1
            real(fd)

        monkeypatch.setattr(os, "fdatasync", counted)
        await asyncio.gather(*(registry.create(f"/{number}") for number in range(100)))
        await registry.create("/e", ephemeral=True)
        monkeypatch.undo()
        await tree.close()
        return count

    assert 1 <= asyncio.run(scenario()) <= 3


@pytest.mark.parametrize("is_read", [False, True])
def test_pages_are_moved_as_the_wal_grows_and_not_at_every_write_after(
    path: str, monkeypatch: pytest.MonkeyPatch, is_read: bool
) -> None:
    """Also while somebody reads, so that the WAL cannot begin anew and only grows."""
    limit = 256 * 1024
    monkeypatch.setattr(store_module, "CHECKPOINT_BYTES", limit)
    moved_at: list[int] = []
    store = Store(path)
    real = store._checkpoint

    def counted() -> None:
        moved_at.append(os.path.getsize(f"{path}-wal"))
        real()

    monkeypatch.setattr(store, "_checkpoint", counted)
    store.apply([Create("/a")], 0)
    reader = sqlite3.connect(path, isolation_level=None)
    if is_read:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM node").fetchone()
    written = 0
    for number in range(400):
        store.apply([Set("/a", bytes([number % 256]) * 5_000)], 0)
        store.sync()
        written += 5_000
    wal_bytes = os.path.getsize(f"{path}-wal")
    reader.close()
    assert written // limit <= len(moved_at) <= 5 * written // limit
    if is_read:
        assert moved_at[-1] > 4 * limit
    else:
        assert wal_bytes < 2 * limit
    store.close()
    again = Store(path)
    assert again.get("/a").data == bytes([399 % 256]) * 5_000
    again.close()


def test_a_failed_move_of_pages_ends_all_writing(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        tree = EmbeddedTree(path, call_soon=loop.call_soon, workers=Threads())  # type: ignore[arg-type]
        registry = tree.session()

        def broken() -> None:
            raise sqlite3.OperationalError("disk I/O error")

        monkeypatch.setattr(store_module, "CHECKPOINT_BYTES", 1)
        monkeypatch.setattr(tree._store, "_checkpoint", broken)
        with pytest.raises(RegistryFailure, match="disk I/O error"):
            await registry.create("/a")
        monkeypatch.undo()
        with pytest.raises(RegistryFailure, match="disk I/O error"):
            await registry.create("/b")
        await tree.close()

    asyncio.run(scenario())
