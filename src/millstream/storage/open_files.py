"""Descriptors of files that are read now and then: a few stay open, the rest open when asked for."""

import errno
from collections import OrderedDict
from collections.abc import Callable

from millstream.storage.files import File, Files

OPEN_FILES_MAX = 128


class OpenFiles:
    """Read-only files by path, the least recently used dropped first.

    A dropped file closes with its last reference, so a slice being sent outlives its place here.
    """

    __slots__ = ("_by_path", "_files", "_limit", "relieve")

    def __init__(self, files: Files, limit: int = OPEN_FILES_MAX) -> None:
        self._files = files
        self._limit = limit
        self._by_path: OrderedDict[str, File] = OrderedDict()
        #: Asked to give descriptors back when there are no more to be had.
        self.relieve: Callable[[], None] = self._by_path.clear

    def get(self, path: str) -> File:
        """The file at ``path``, opened now if it was not open already."""
        file = self._by_path.get(path)
        if file is not None:
            self._by_path.move_to_end(path)
            return file
        file = self.open(path)
        self._by_path[path] = file
        if len(self._by_path) > self._limit:
            self._by_path.popitem(last=False)
        return file

    @staticmethod
    def ran_out(error: OSError) -> bool:
        """Whether the error is for want of descriptors."""
        return error.errno in (errno.EMFILE, errno.ENFILE)

    def open(self, path: str, *, writable: bool = False, create: bool = False) -> File:
        """A file that is not kept here; when descriptors run out, others are given back and it is tried once more."""
        try:
            return self._files.open(path, writable=writable, create=create)
        except OSError as error:
            if not self.ran_out(error):
                raise
            self.give_back()
            return self._files.open(path, writable=writable, create=create)

    def replace(self, path: str, data: bytes) -> None:
        """Replace a small file atomically, without waiting for the disk: for what can be found again in the log.

        A thread may be replacing the very same, durably; each writes aside under a name of its own.
        """
        aside = path + ".new.tmp"
        file = self.open(aside, writable=True, create=True)
        if file.size:
            file.truncate(0)
        file.append(data)
        file.close()
        self._files.rename(aside, path)

    def make_durable(self, path: str) -> None:
        """Return when the file at ``path`` and its name are on the disk."""
        file = self.open(path, writable=True)
        file.flush()
        file.close()
        self._files.sync_folder(path.rpartition("/")[0])

    def forget(self, path: str) -> None:
        """Drop ``path``: it is renamed, removed or written to."""
        self._by_path.pop(path, None)

    def give_back(self) -> None:
        """Close whatever can be opened again when it is needed."""
        self._by_path.clear()
        self.relieve()

    def forget_folder(self, path: str) -> None:
        for kept in [each for each in self._by_path if each.startswith(path + "/")]:
            del self._by_path[kept]
