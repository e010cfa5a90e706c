"""A run of bytes in a file: what a fetch answers, sent uncopied where the transport allows it."""

from typing import Protocol

#: What is looked at to find the batch after a slice.  Whoever reads on asks for that next, so it is had with the slice.
AHEAD_BYTES = 8 * 1024


class Readable(Protocol):
    """A file, as far as answering from it needs."""

    path: str
    size: int

    def read(self, position: int, length: int) -> bytes: ...

    def is_cached(self, position: int, length: int) -> bool: ...

    def read_cached(self, position: int, length: int) -> bytes | bytearray | None: ...

    def let_go(self, position: int, length: int) -> None: ...

    def fileno(self) -> int: ...


class FileSlice:
    """``length`` bytes of ``file`` from ``position`` on; it keeps the file open."""

    __slots__ = ("file", "length", "position")

    def __init__(self, file: Readable, position: int, length: int) -> None:
        self.file = file
        self.position = position
        self.length = length

    def __len__(self) -> int:
        return self.length

    def read(self) -> bytes:
        """The bytes themselves."""
        return self.file.read(self.position, self.length)

    def read_cached(self) -> bytes | bytearray | None:
        """The bytes themselves, if they can be had without waiting for a disk."""
        return self.file.read_cached(self.position, self.length)

    def is_cached(self) -> bool:
        """Whether the bytes, and the place after them, can likely be had without waiting for a disk."""
        return self.file.is_cached(self.position, self.length + AHEAD_BYTES)
