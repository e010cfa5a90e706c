"""What a simulated disk holds: files and folders, each as its cache and its disk have it."""

import random

from millstream.storage.files import Buffer

PAGE_BYTES = 4096


def pages(position: int, length: int) -> range:
    """The numbers of the pages that hold these bytes."""
    return range(position // PAGE_BYTES, -(-(position + length) // PAGE_BYTES))


class Inode:
    """A file's bytes: the cache's and, as a common prefix and an old tail, the disk's."""

    __slots__ = ("cold", "data", "flushed", "modified_ms", "old_tail")

    def __init__(self, modified_ms: int) -> None:
        self.data = bytearray()
        self.flushed = 0  # Bytes that are the same in cache and on disk.
        self.old_tail = b""  # What the disk has behind them.
        self.modified_ms = modified_ms
        self.cold: set[int] = set()  # Pages that would have to come from the disk.

    def write(self, at: int, chunk: Buffer) -> None:
        self._diverge(at)
        self.data[at : at + len(chunk)] = chunk

    def cut(self, size: int) -> None:
        if size > len(self.data):
            self.data.extend(bytes(size - len(self.data)))
        self._diverge(size)
        del self.data[size:]

    def flush(self) -> None:
        self.flushed, self.old_tail = len(self.data), b""

    def crash(self, rng: random.Random) -> None:
        """Become what a disk may hold after the power went."""
        fresh = self.data[self.flushed :]
        if not fresh and not self.old_tail:
            return
        fate = rng.choice(("old", "all", "part", "holes"))
        tail: Buffer = fresh
        if fate == "old":
            tail = self.old_tail
        elif fate != "all" and fresh:
            tail = fresh[: rng.randint(0, len(fresh))]
            if fate == "holes":
                for at in range(0, len(tail), PAGE_BYTES):
                    if rng.random() < 0.5:
                        tail[at : at + PAGE_BYTES] = bytes(len(tail[at : at + PAGE_BYTES]))
        self.data = self.data[: self.flushed] + tail
        self.flush()

    def _diverge(self, at: int) -> None:
        if at < self.flushed:
            self.old_tail = bytes(self.data[at : self.flushed]) + self.old_tail
            self.flushed = at


class Folder:
    """Names in a folder: the cache's, the disk's, and the operations between the two."""

    __slots__ = ("durable", "entries", "pending")

    def __init__(self) -> None:
        self.entries: dict[str, Inode | Folder] = {}
        self.durable: dict[str, Inode | Folder] = {}
        self.pending: list[tuple[tuple[str, Inode | Folder | None], ...]] = []

    def change(self, *steps: "tuple[str, Inode | Folder | None]") -> None:
        """Set (or with None drop) names, all in one step."""
        _apply(self.entries, steps)
        self.pending.append(steps)

    def sync(self) -> None:
        for steps in self.pending:
            _apply(self.durable, steps)
        self.pending.clear()

    def sync_all(self) -> None:
        """Bring names and bytes to the disk, all the way down."""
        self.sync()
        for node in self.entries.values():
            if isinstance(node, Folder):
                node.sync_all()
            else:
                node.flush()

    def crash(self, rng: random.Random) -> None:
        kept = rng.randint(0, len(self.pending))
        del self.pending[kept:]
        self.sync()
        self.entries = dict(self.durable)
        for name in sorted(self.entries):
            self.entries[name].crash(rng)


def _apply(names: "dict[str, Inode | Folder]", steps: "tuple[tuple[str, Inode | Folder | None], ...]") -> None:
    for name, node in steps:
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node
