"""Sparse indexes of a segment, in Kafka's format: offset to position, and timestamp to offset.

An entry is a key and a value, both growing; the key stands first.  New entries wait in memory until ``flush``
appends them to the file, so a file never holds padding.  (Apache Kafka preallocates zeros; ``load`` trims them.)
"""

import struct
from typing import ClassVar

from millstream.storage.open_files import OpenFiles

#: One read of the file sees this many bytes: enough that a guess by proportion nearly always lands.
WINDOW_BYTES = 4096


class Index:
    """Entries sorted by key; lookups read a constant number of windows, however long the file is."""

    __slots__ = ("_filed", "_open_files", "_pending", "is_filed", "is_synced", "last", "path")

    ENTRY: ClassVar[struct.Struct]

    def __init__(self, open_files: OpenFiles, path: str) -> None:
        self.path = path
        self._open_files = open_files
        self._filed = 0
        self._pending = bytearray()
        #: The entry with the greatest key, or None when there is none.
        self.last: tuple[int, int] | None = None
        #: Whether there is a file; a new segment's indexes get theirs with the first flush.
        self.is_filed = False
        #: Whether the disk has what the file has.
        self.is_synced = True

    def __len__(self) -> int:
        return self._filed + len(self._pending) // self.ENTRY.size

    @property
    def is_pending(self) -> bool:
        """Whether entries wait in memory."""
        return bool(self._pending)

    def __getitem__(self, at: int) -> tuple[int, int]:
        size = self.ENTRY.size
        if at >= self._filed:
            key, value = self.ENTRY.unpack_from(self._pending, (at - self._filed) * size)
        else:
            key, value = self.ENTRY.unpack(self._open_files.get(self.path).read(at * size, size))
        return key, value

    def append(self, key: int, value: int) -> None:
        self._pending += self.ENTRY.pack(key, value)
        self.last = (key, value)

    def floor(self, key: int) -> tuple[int, int] | None:
        """The last entry whose key is at most ``key``."""
        if self.last is None:
            return None
        if self.last[0] <= key:
            return self.last
        pending = self._pending
        if pending and self.ENTRY.unpack_from(pending, 0)[0] <= key:
            return self._floor_within(pending, key)
        return self._floor_on_file(key) if self._filed else None

    def _floor_within(self, entries: bytes | bytearray, key: int) -> tuple[int, int] | None:
        unpack, size = self.ENTRY.unpack_from, self.ENTRY.size
        low, high = 0, len(entries) // size
        while low < high:
            middle = (low + high) // 2
            if unpack(entries, middle * size)[0] <= key:
                low = middle + 1
            else:
                high = middle
        if low == 0:
            return None
        found = unpack(entries, (low - 1) * size)
        return found[0], found[1]

    def _floor_on_file(self, key: int) -> tuple[int, int] | None:
        """Guess the entry's place by proportion, then halve: keys grow evenly in most logs, not in all."""
        file = self._open_files.get(self.path)
        unpack, size = self.ENTRY.unpack_from, self.ENTRY.size
        per_window = WINDOW_BYTES // size
        low, high = 0, self._filed  # The answer's place is in [low - 1, high).
        first = unpack(file.read(0, size))[0]
        if first > key:
            return None
        last = unpack(file.read((high - 1) * size, size))[0]
        guess = int((high - 1) * (key - first) / (last - first)) if last > first else high - 1
        best: tuple[int, int] | None = None
        while low < high:
            start = max(low, min(guess, high - 1) - per_window // 2)
            window = file.read(start * size, min(per_window, high - start) * size)
            count = len(window) // size
            if count == 0 or unpack(window, 0)[0] > key:  # Shorter than it was when loaded: what is left is searched.
                high = start
            else:
                best = self._floor_within(window, key)
                if unpack(window, (count - 1) * size)[0] > key:
                    return best
                low = start + count
            guess = (low + high) // 2
        return best

    def flush(self) -> None:
        """Append what waits in memory to the file, which is there afterwards."""
        if self._pending or not self.is_filed:
            self.is_filed = True
            self.is_synced = False
            self._open_files.forget(self.path)
            file = self._open_files.open(self.path, writable=True, create=True)
            if file.size != self._filed * self.ENTRY.size:
                file.truncate(self._filed * self.ENTRY.size)
            file.append(self._pending)
            file.close()
            self._filed += len(self._pending) // self.ENTRY.size
            self._pending = bytearray()

    def load(self) -> None:
        """Take over what the file holds: whole entries, without the zeros that Apache Kafka preallocates."""
        size = self.ENTRY.size
        file = self._open_files.get(self.path)
        self.is_filed = True
        low, high = 0, file.size // size
        if high and any(file.read((high - 1) * size, size)):
            low = high
        while low < high:  # Entries are non-zero up to some place, and zero from there on.
            middle = (low + high) // 2
            if any(file.read(middle * size, size)):
                low = middle + 1
            else:
                high = middle
        self._pending = bytearray()
        self._filed = low
        self.last = self[low - 1] if low else None

    def reset(self) -> None:
        """Start anew, with an empty file."""
        self._pending = bytearray()
        self._filed = 0
        self.last = None
        self._cut_file()

    def trust(self, bound: int, *, by_value: bool = False) -> None:
        """Keep the entries from the file's start that grow as they should and whose key (or value) is below ``bound``.

        Behind what was flushed a crash leaves anything: zeros, halves, former entries.
        """
        self._pending = bytearray()
        try:
            data = self._open_files.get(self.path).read(0, self._open_files.get(self.path).size)
        except FileNotFoundError:
            data = b""
        count, key, value = 0, -1, -1
        for next_key, next_value in self.ENTRY.iter_unpack(data[: len(data) - len(data) % self.ENTRY.size]):
            if next_key <= key or next_value <= value or (next_value if by_value else next_key) >= bound:
                break
            count, key, value = count + 1, next_key, next_value
        self._filed = count
        self.last = (key, value) if count else None
        if len(data) != count * self.ENTRY.size:
            self._cut_file()

    def _cut_file(self) -> None:
        """Let the file end with the entries that count."""
        self.is_filed = True
        self.is_synced = False
        self._open_files.forget(self.path)
        file = self._open_files.open(self.path, writable=True, create=True)
        file.truncate(self._filed * self.ENTRY.size)
        file.close()

    def keep(self, count: int) -> None:
        """Cut every entry from the ``count``-th on."""
        size = self.ENTRY.size
        if count < len(self):
            if count >= self._filed:
                del self._pending[(count - self._filed) * size :]
            else:
                self._pending = bytearray()
                self._filed = count
                self._cut_file()
            self.last = self[count - 1] if count else None

    def rank(self, bound: int, *, by_value: bool = False) -> int:
        """How many entries have a key (or value) below ``bound``."""
        field = 1 if by_value else 0
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self[middle][field] < bound:
                low = middle + 1
            else:
                high = middle
        return low


class OffsetIndex(Index):
    """Relative offset of a batch's last record, to the position where that batch starts."""

    __slots__ = ()
    ENTRY = struct.Struct(">ii")


class TimeIndex(Index):
    """Greatest timestamp so far, to the relative offset of the last record of the batch that brought it."""

    __slots__ = ()
    ENTRY = struct.Struct(">qi")

    def extend_to(self, timestamp: int, relative_offset: int) -> None:
        """Note a greatest timestamp, unless it is the one noted last."""
        if timestamp >= 0 and (self.last is None or timestamp > self.last[0]):
            self.append(timestamp, relative_offset)
