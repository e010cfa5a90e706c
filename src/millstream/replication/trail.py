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


class Trail:
    """Of one follower, in one file at a time: from where it had to wait for the disk."""

    __slots__ = ("_file", "_start")

    def __init__(self) -> None:
        #: It is not kept open for this: it may be deleted while nobody asks for more.
        self._file: ref[Readable] | None = None
        self._start = 0

    def begin(self, piece: FileSlice) -> None:
        """This had to come from the disk, and so will what follows in its file, read ahead by then or not."""
        if self._file is None:
            self._file, self._start = ref(piece.file), piece.position

    def behind(self, piece: FileSlice) -> Callable[[], None] | None:
        """The follower has all before this piece: what lets that go, for a thread; None while it is not worth it."""
        if self._file is None:
            return None
        file, first = self._file(), max(0, self._start - AHEAD_BYTES)
        if file is not piece.file:
            self._file = None
            last = self._start + STEP_BYTES + AHEAD_BYTES
        elif piece.position - self._start >= STEP_BYTES:
            last = self._start = piece.position
        else:
            return None
        return None if file is None else lambda: file.let_go(first, last - first)
