"""What a follower that copies history leaves behind in our memory: it came from the disk for it, and may go again.

Left to the kernel, a long log on its way to a follower would take the place of what everybody else reads, and the
broker would wait for memory to be found for each piece of it.
"""

from collections.abc import Callable
from weakref import ref

from millstream.model.slices import FileSlice, Readable

#: A disk is read ahead by up to so much, and memory is given back in runs that begin before what was asked for.
AHEAD_BYTES = 8 * 1024 * 1024
#: So much is read before what lies behind goes.
STEP_BYTES = 16 * 1024 * 1024
#: So far before a follower nothing was read ahead for it: what is in memory there is what others read or wrote.
FAR_BYTES = 4 * AHEAD_BYTES


class Trail:
    """Of one follower, in one file at a time: from where it had to wait for the disk to where others were before it."""

    __slots__ = ("_file", "_path", "_start")

    def __init__(self) -> None:
        #: Files that are asked for little by little are closed and opened again in between.
        self._path: str | None = None
        #: It is not kept open for this: it may be deleted while nobody asks for more.
        self._file: ref[Readable] | None = None
        self._start = 0

    def begin(self, piece: FileSlice) -> None:
        """This had to come from the disk, and so will what follows it, read ahead by then or not."""
        if self._path is None:
            self._path, self._file, self._start = piece.file.path, ref(piece.file), piece.position

    def behind(self, piece: FileSlice) -> Callable[[], None] | None:
        """The follower has all before this piece: what lets that go, for a thread; None while it is not worth it."""
        if self._path is None or self._file is None:
            return None
        first = max(0, self._start - AHEAD_BYTES)
        if piece.file.path != self._path:
            file, last = self._file(), self._start + STEP_BYTES + AHEAD_BYTES
            self._path = None
        elif piece.position - self._start >= STEP_BYTES:
            file, last = piece.file, piece.position
            self._file, self._start = ref(file), last
            if last + FAR_BYTES < file.size and file.is_cached(last + FAR_BYTES, 1):
                self._path = None
        else:
            return None
        return None if file is None else lambda: file.let_go(first, last - first)
