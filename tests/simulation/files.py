"""A disk in memory that loses what was not flushed, and fails where a test says.

What is modelled: bytes lie in a page cache until ``flush``; names (creating, renaming, removing) lie in it until
their folder is synced.  At a crash of the machine each file keeps what was flushed and, by the seed, none, all, a
part or a holed part of the rest; each folder keeps what was synced and a prefix of the operations after.  A killed
process loses nothing but its handles and locks.
"""

import errno
import os
import random
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from posixpath import normpath, split

from millstream.model.clock import Clock
from millstream.storage.files import Buffer
from tests.simulation.medium import PAGE_BYTES, Folder, Inode, pages

#: The size of a disk that nobody gave a size.
ENDLESS_BYTES = 1 << 50
#: In place of an errno: the call succeeds with fewer bytes than it was asked for, as from a file cut meanwhile.
SHORT = 0


@dataclass(slots=True)
class Fault:
    """Where calls fail: an operation (a method's name, ``*`` for all), a path pattern, and with which errno."""

    operation: str
    error: int
    path: str
    times: int | None
    after: int
    chance: float

    def strikes(self, operation: str, path: str, rng: random.Random) -> bool:
        """Whether this call fails; counts down."""
        if self.times == 0 or self.operation not in ("*", operation) or not fnmatchcase(path, self.path):
            return False
        if self.after > 0:
            self.after -= 1
            return False
        if self.chance < 1 and rng.random() >= self.chance:
            return False
        if self.times is not None:
            self.times -= 1
        return True


class MemoryFile:
    """An open file of a MemoryFiles."""

    __slots__ = ("__weakref__", "_files", "_inode", "_life", "_writable", "path", "size")

    def __init__(self, files: "MemoryFiles", path: str, inode: Inode, writable: bool) -> None:
        self._files = files
        self._inode = inode
        self._writable = writable
        self._life = files.life
        self.path = path
        self.size = len(inode.data)

    def append(self, data: Buffer, *, counts: bool = True) -> None:
        self._ready("append", writing=True)
        self._files.take_space(self.path, len(data))
        self._inode.write(self.size, data)
        self._inode.modified_ms = self._files.now_ms()
        if counts:
            self.size += len(data)

    def read(self, position: int, length: int) -> bytes:
        if self._ready("read") == SHORT:
            length //= 2
        self._inode.cold.difference_update(pages(position, length))
        return bytes(memoryview(self._inode.data)[position : position + length])

    def read_cached(self, position: int, length: int) -> bytes | None:
        return self.read(position, length) if self.is_cached(position, length) else None

    def is_cached(self, position: int, length: int) -> bool:
        return self._inode.cold.isdisjoint(pages(position, length))

    def let_go(self, position: int, length: int) -> None:
        self._files.unneeded.append((self.path, position, position + length))
        end = min(position + length, len(self._inode.data))
        self._inode.cold.update(pages(position, end - end % PAGE_BYTES - position))

    def truncate(self, size: int) -> None:
        self._ready("truncate", writing=True)
        self._inode.cut(size)
        self._inode.modified_ms = self._files.now_ms()
        self.size = size

    def flush(self) -> None:
        self._ready("flush")
        self._inode.flush()

    def close(self) -> None:
        self._life = -1
        self._files.forget(self)

    def fileno(self) -> int:
        return -1

    def _ready(self, operation: str, *, writing: bool = False) -> int | None:
        if self._life != self._files.life or (writing and not self._writable):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path)
        return self._files.strike(operation, self.path)


class _Lock:
    """A held lock; dropping it lets go."""

    def __init__(self, files: "MemoryFiles", path: str) -> None:
        self._held = weakref.ref(files)
        self.path = path

    def close(self) -> None:
        files = self._held()
        if files is not None:
            files.let_go(self)

    def __del__(self) -> None:
        self.close()


class MemoryFiles:
    """A disk.  Everything random comes from ``rng``; the clock, when given, stamps the files."""

    def __init__(self, rng: random.Random | None = None, clock: Clock | None = None) -> None:
        self.life = 0
        self._boots = 0
        self.capacity_bytes: int | None = None
        #: The ranges of files that nobody was to read soon.
        self.unneeded: list[tuple[str, int, int]] = []
        self._rng = rng or random.Random(0)
        self._clock = clock
        self._root = Folder()
        self._faults: list[Fault] = []
        self._locks: dict[str, int] = {}
        self._open: weakref.WeakSet[MemoryFile] = weakref.WeakSet()

    # What a test does to the disk.

    def crash(self) -> None:
        """Cut the power: lose what the seed takes of everything not on disk, and every handle and lock."""
        self.kill()
        self._boots += 1
        self._root.crash(self._rng)

    def kill(self) -> None:
        """End the process that uses the disk: handles and locks go, bytes and names stay."""
        self.life += 1
        self._locks.clear()
        self._open.clear()

    def fail(
        self,
        operation: str,
        error: int = errno.EIO,
        path: str = "*",
        *,
        times: int | None = None,
        after: int = 0,
        chance: float = 1.0,
    ) -> Fault:
        """Make calls fail: those of ``operation`` on matching paths, the first ``after`` excepted, ``times`` times."""
        fault = Fault(operation, error, path, times, after, chance)
        self._faults.append(fault)
        return fault

    def heal(self) -> None:
        """End every fault."""
        self._faults.clear()

    @contextmanager
    def failing(self, operation: str, error: int = errno.EIO, path: str = "*") -> Iterator[None]:
        """Calls fail inside the block and no longer."""
        fault = self.fail(operation, error, path)
        try:
            yield
        finally:
            self._faults.remove(fault)

    def damage(self, path: str, position: int, data: Buffer) -> None:
        """Overwrite bytes on the disk itself, behind everyone's back."""
        inode = self._file(path)
        inode.data[position : position + len(data)] = data

    def drop_caches(self) -> None:
        """Let every file be read from the disk next time, so that ``is_cached`` says no."""
        for _, inode in self._walk(self._root, ""):
            inode.cold.update(pages(0, len(inode.data)))

    @property
    def open_count(self) -> int:
        """How many handles are open: leaks show here."""
        return len(self._open)

    @property
    def used_bytes(self) -> int:
        """Bytes of all files together."""
        return sum(len(inode.data) for _, inode in self._walk(self._root, ""))

    def paths(self) -> list[str]:
        """Every file there is, sorted."""
        return sorted(path for path, _ in self._walk(self._root, ""))

    def is_durable(self, path: str) -> bool:
        """Whether the file, its bytes and every name on the way to it would survive any crash."""
        node: Inode | Folder = self._root
        for name in _names(path):
            assert isinstance(node, Folder)
            if any(name == changed for steps in node.pending for changed, _ in steps) or name not in node.durable:
                return False
            node = node.durable[name]
        return isinstance(node, Folder) or (node.flushed == len(node.data) and not node.old_tail)

    # What storage asks.

    def open(self, path: str, *, writable: bool = False, create: bool = False) -> MemoryFile:
        self.strike("open", path)
        folder, name = self._parent(path)
        node = folder.entries.get(name)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            node = Inode(self.now_ms())
            folder.change((name, node))
        if isinstance(node, Folder):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        file = MemoryFile(self, path, node, writable or create)
        self._open.add(file)
        return file

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def list(self, path: str) -> "list[str]":
        self.strike("list", path)
        return sorted(self._folder(path).entries)

    def size(self, path: str) -> int:
        return len(self._file(path).data)

    def modified_ms(self, path: str) -> int:
        return self._file(path).modified_ms

    def make_folder(self, path: str) -> None:
        self.strike("make_folder", path)
        node = self._root
        for name in _names(path):
            below = node.entries.get(name)
            if below is None:
                below = Folder()
                node.change((name, below))
            if not isinstance(below, Folder):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            node = below

    def rename(self, old: str, new: str) -> None:
        self.strike("rename", old)
        folder, old_name = self._parent(old)
        target, new_name = self._parent(new)
        if folder is not target:
            raise OSError(errno.EXDEV, "this disk renames within a folder only", old, None, new)
        node = folder.entries.get(old_name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), old)
        replaced = folder.entries.get(new_name)
        if isinstance(replaced, Folder) and replaced.entries:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), new)
        if old_name != new_name:
            folder.change((old_name, None), (new_name, node))

    def remove(self, path: str) -> None:
        self.strike("remove", path)
        if self._find(path) is not None:
            self._file(path)
            folder, name = self._parent(path)
            folder.change((name, None))

    def remove_tree(self, path: str) -> None:
        self.strike("remove_tree", path)
        node = self._find(path)
        if node is None:
            return
        if isinstance(node, Folder):
            for name in sorted(node.entries):
                self.remove_tree(f"{path}/{name}")
        folder, name = self._parent(path)
        folder.change((name, None))

    def read(self, path: str) -> bytes:
        if self.strike("read", path) == SHORT:
            return bytes(self._file(path).data[: len(self._file(path).data) // 2])
        return bytes(self._file(path).data)

    def replace(self, path: str, data: Buffer) -> None:
        self.strike("replace", path)
        file = self.open(path + ".tmp", create=True)
        try:
            file.truncate(0)
            file.append(data)
            file.flush()
        finally:
            file.close()
        self.rename(path + ".tmp", path)
        self.sync_folder(split(path)[0])

    def sync_folder(self, path: str) -> None:
        self.strike("sync_folder", path)
        self._folder(path).sync()

    def sync_volume(self, path: str) -> None:
        self.strike("sync_volume", path)
        self._root.sync_all()

    def volume_bytes(self, path: str) -> tuple[int, int]:
        size = ENDLESS_BYTES if self.capacity_bytes is None else self.capacity_bytes
        return size, size - self.used_bytes

    def lock(self, path: str) -> object | None:
        self.strike("lock", path)
        key = normpath(path)
        if key in self._locks:
            return None
        self.open(path, create=True).close()
        lock = _Lock(self, key)
        self._locks[key] = id(lock)
        return lock

    def boot_id(self) -> str:
        return f"boot-{self._boots}"

    # What handles ask.

    def strike(self, operation: str, path: str) -> int | None:
        """Raise what the faults say; SHORT is handed back."""
        for fault in self._faults:
            if fault.strikes(operation, path, self._rng):
                if fault.error == SHORT:
                    return SHORT
                raise OSError(fault.error, os.strerror(fault.error), path)
        return None

    def take_space(self, path: str, wanted_bytes: int) -> None:
        """Raise ENOSPC where so many bytes more would not fit."""
        if self.capacity_bytes is not None and self.used_bytes + wanted_bytes > self.capacity_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def now_ms(self) -> int:
        """The clock's time, or 0 where there is no clock."""
        return self._clock.now_ms() if self._clock else 0

    def forget(self, file: MemoryFile) -> None:
        """Take a closed file out of the count."""
        self._open.discard(file)

    def let_go(self, lock: _Lock) -> None:
        """Release a lock, unless a later holder has it."""
        if self._locks.get(lock.path) == id(lock):
            del self._locks[lock.path]

    def _find(self, path: str) -> Inode | Folder | None:
        node: Inode | Folder | None = self._root
        for name in _names(path):
            if not isinstance(node, Folder):
                return None
            node = node.entries.get(name)
        return node

    def _file(self, path: str) -> Inode:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if isinstance(node, Folder):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return node

    def _folder(self, path: str) -> Folder:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        if not isinstance(node, Folder):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return node

    def _parent(self, path: str) -> tuple[Folder, str]:
        above, name = split(normpath(path))
        return self._folder(above), name

    def _walk(self, folder: Folder, prefix: str) -> Iterator[tuple[str, Inode]]:
        for name, node in folder.entries.items():
            if isinstance(node, Folder):
                yield from self._walk(node, f"{prefix}/{name}")
            else:
                yield f"{prefix}/{name}", node


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name and name != "."]
