"""Descriptors of files that are read now and then: a few stay open, the rest open when asked for."""

import errno
from collections import OrderedDict

from millstream.storage.files import File, Files

OPEN_FILES_MAX = 128


class OpenFiles:
    """Read-only files by path, the least recently used dropped first.

    A dropped file closes with its last reference, so a slice being sent outlives its place here.
    """

    __slots__ = ("_by_path", "_files", "_limit")

    def __init__(self, files: Files, limit: int = OPEN_FILES_MAX) -> None:
        self._files = files
        self._limit = limit
        self._by_path: OrderedDict[str, File] = OrderedDict()

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

    def open(self, path: str, *, writable: bool = False, create: bool = False) -> File:
        """A file that is not kept here; when descriptors run out, the kept ones make room once."""
        try:
            return self._files.open(path, writable=writable, create=create)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._by_path:
                raise
            self._by_path.clear()
            return self._files.open(path, writable=writable, create=create)

    def forget(self, path: str) -> None:
        """Drop ``path``: it is renamed, removed or written to."""
        self._by_path.pop(path, None)

    def forget_folder(self, path: str) -> None:
        for kept in [each for each in self._by_path if each.startswith(path + "/")]:
            del self._by_path[kept]
