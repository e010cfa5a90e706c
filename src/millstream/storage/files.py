"""Files and folders as storage sees them, and the real ones.

Everything storage does to a disk goes through ``Files`` and ``File``, so that tests and simulation can lay a
faulty one underneath.
"""

import ctypes
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from mmap import PAGESIZE
from pathlib import Path
from typing import Protocol

from millstream.model.slices import FileSlice as FileSlice

#: Linux gives the machine another one whenever it starts.
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

Buffer = bytes | bytearray | memoryview

#: How much a flush has the disk begin on in one call: the kernel may keep the processor to itself within each.
FLUSH_STEP_BYTES = 1024 * 1024
_SYNC_FILE_RANGE_WRITE = 2


def _range_writer() -> Callable[[int, int, int, int], int] | None:
    """What has a range of a file written without waiting for it, where the system has such a call."""
    call = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if call is not None:
        call.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return call


begin_writing = _range_writer()


class NotFlushed(OSError):
    """What was written may not be on the disk, nor in memory any more."""


class File(Protocol):
    """A file that grows at its end; positions and sizes are bytes."""

    path: str
    size: int

    def append(self, data: Buffer, *, counts: bool = True) -> None:
        """Write all of ``data`` at the end, or none of it: after an OSError the size is as before.

        What does not count is no part of the file until ``size`` is set to its end: the next bytes are written over
        it.  A thread may write such.
        """
        ...

    def read(self, position: int, length: int) -> bytes:
        """The bytes from ``position`` on: ``length`` of them, fewer only at the end of the file."""
        ...

    def read_cached(self, position: int, length: int) -> bytes | bytearray | None:
        """The bytes if all of them are in memory, None if some would have to come from a disk."""
        ...

    def is_cached(self, position: int, length: int) -> bool:
        """Whether reading this range would likely be answered from memory, without waiting for a disk."""
        ...

    def let_go(self, position: int, length: int) -> None:
        """Nobody is to read this range soon, so what of it is on the disk need not be in memory as well.

        What shares a page with the next append stays, or that would have to read it.
        """
        ...

    def truncate(self, size: int) -> None:
        """Cut everything from ``size`` on."""
        ...

    def flush(self) -> None:
        """Return when every byte appended before the call is on disk; may be called from any thread."""
        ...

    def close(self) -> None:
        """Give the descriptor back; slices taken earlier can no longer be read."""
        ...

    def fileno(self) -> int:
        """A descriptor that sendfile can take, or -1 where there is none."""
        ...


class Files(Protocol):
    """A disk: what storage asks of the operating system."""

    def open(self, path: str, *, writable: bool = False, create: bool = False) -> File:
        """Open ``path``; with ``create`` it is made when missing (and must then be writable)."""
        ...

    def exists(self, path: str) -> bool: ...

    def list(self, path: str) -> list[str]:
        """Names in a folder, sorted."""
        ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def make_folder(self, path: str) -> None:
        """Make a folder and its parents; one that is there already is fine."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename atomically, replacing ``new``; durable once the folder is synced."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file; one that is gone already is fine."""
        ...

    def remove_tree(self, path: str) -> None:
        """Remove a folder and all in it; one that is gone already is fine."""
        ...

    def read(self, path: str) -> bytes: ...

    def replace(self, path: str, data: Buffer) -> None:
        """Replace a small file's content atomically and durably (write aside, flush, rename, sync the folder)."""
        ...

    def sync_folder(self, path: str) -> None:
        """Return when the folder's entries are on disk."""
        ...

    def sync_volume(self, path: str) -> None:
        """Return when all that was written to the volume that holds ``path`` is on disk, names included.

        A write that failed before the call may go unmentioned, so whoever must know flushes each file as well.
        """
        ...

    def volume_bytes(self, path: str) -> tuple[int, int]:
        """The size of the volume that holds ``path``, and how much of it is free to us."""
        ...

    def lock(self, path: str) -> object | None:
        """Hold ``path`` as a lock until the returned handle is closed or the process ends; None when another has it."""
        ...

    def boot_id(self) -> str:
        """Names the machine's run: while it is the same, all that was written is there, flushed or not.

        Empty where it cannot be told.
        """
        ...


class OsFile:
    """A file of the operating system; its descriptor is closed with the last reference."""

    __slots__ = ("__weakref__", "_fd", "_flushed_bytes", "path", "size")

    #: A probe reads a byte of each step; pages come and go from memory in runs at least this long.
    PROBE_STEP_BYTES = 128 * 1024

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd
        self.size = self._flushed_bytes = os.fstat(fd).st_size

    def append(self, data: Buffer, *, counts: bool = True) -> None:
        length = len(data)
        written = 0
        try:
            written = os.pwrite(self._fd, data, self.size)
            while written < length:  # A short write is rare (a disk nearly full, a signal).
                written += os.pwrite(self._fd, memoryview(data)[written:], self.size + written)
        except OSError:
            if written:
                os.ftruncate(self._fd, self.size)
            raise
        if counts:
            self.size += length

    def read(self, position: int, length: int) -> bytes:
        data = os.pread(self._fd, length, position)
        if len(data) == length or position + len(data) >= self.size:
            return data
        parts = [data]
        got = len(data)
        while got < length and (data := os.pread(self._fd, length - got, position + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def read_cached(self, position: int, length: int) -> bytes | bytearray | None:
        data = bytearray(length)
        try:
            return data if os.preadv(self._fd, [data], position, os.RWF_NOWAIT) == length else None
        except BlockingIOError:
            return None
        except OSError:  # A file system without RWF_NOWAIT.
            return self.read(position, length)

    def is_cached(self, position: int, length: int) -> bool:
        probe = [bytearray(1)]
        last = position + length - 1
        try:
            for at in range(position, last, self.PROBE_STEP_BYTES):
                os.preadv(self._fd, probe, at, os.RWF_NOWAIT)
            os.preadv(self._fd, probe, last, os.RWF_NOWAIT)
        except BlockingIOError:
            return False
        except OSError:  # A file system without RWF_NOWAIT: nothing can be known, so nothing is slowed down.
            return True
        return True

    def let_go(self, position: int, length: int) -> None:
        end = min(position + length, self.size)
        length = end - end % PAGESIZE - position
        if length > 0 and hasattr(os, "posix_fadvise"):
            with suppress(OSError):  # It is advice: what cannot be done need not be.
                os.posix_fadvise(self._fd, position, length, os.POSIX_FADV_DONTNEED)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        self.size = size
        self._flushed_bytes = min(self._flushed_bytes, size)

    def flush(self) -> None:
        end = self.size
        try:
            if begin_writing is not None:
                for at in range(self._flushed_bytes, end - FLUSH_STEP_BYTES, FLUSH_STEP_BYTES):
                    begin_writing(
                        self._fd, at, FLUSH_STEP_BYTES, _SYNC_FILE_RANGE_WRITE
                    )  # Whether it can is told next.
            os.fdatasync(self._fd)
        except OSError as error:
            raise NotFlushed(error.errno, error.strerror, self.path) from error
        self._flushed_bytes = end

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def fileno(self) -> int:
        return self._fd

    def __del__(self) -> None:
        self.close()


class OsFiles:
    """The operating system's own file systems."""

    def open(self, path: str, *, writable: bool = False, create: bool = False) -> OsFile:
        flags = os.O_CLOEXEC | (os.O_RDWR if writable or create else os.O_RDONLY) | (os.O_CREAT if create else 0)
        return OsFile(path, os.open(path, flags, 0o644))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def list(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def make_folder(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def remove(self, path: str) -> None:
        if os.path.lexists(path):
            os.remove(path)

    def remove_tree(self, path: str) -> None:
        if os.path.lexists(path):
            shutil.rmtree(path)

    def read(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def replace(self, path: str, data: Buffer) -> None:
        aside = path + ".tmp"
        with open(aside, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
        self.sync_folder(os.path.dirname(path))

    def sync_folder(self, path: str) -> None:
        with self._descriptor(path) as fd:
            os.fsync(fd)

    def sync_volume(self, path: str) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        if not hasattr(library, "syncfs"):
            os.sync()
            return
        with self._descriptor(path) as fd:
            if library.syncfs(fd):
                error = ctypes.get_errno()
                raise OSError(error, os.strerror(error), path)

    def volume_bytes(self, path: str) -> tuple[int, int]:
        volume = os.statvfs(path)
        return volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize

    def lock(self, path: str) -> object | None:
        file = self.open(path, create=True)
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        return file

    def boot_id(self) -> str:
        try:
            return BOOT_ID.read_text().strip()
        except OSError:
            return ""

    @contextmanager
    def _descriptor(self, path: str) -> Iterator[int]:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield fd
        finally:
            os.close(fd)
