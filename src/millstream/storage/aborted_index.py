"""The aborted transactions of a segment, in Kafka's format: ``.txnindex``.

An entry stands in the segment that holds its marker, so entries are sorted by their last offset.  New ones wait in
memory until ``flush`` appends them to the file; a segment without any has no file.
"""

import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

from millstream.storage.open_files import OpenFiles

ABORTED_INDEX_SUFFIX = ".txnindex"
VERSION = 0
ENTRY = struct.Struct(">hqqqq")
#: Entries that share one note of their least first offset, so that a search need not look at each.
BLOCK = 128


class DamagedIndex(Exception):
    """A file that is not as it was written; the log has to be asked."""


class AbortedTransaction(NamedTuple):
    """Whose records from ``first_offset`` to the marker at ``last_offset`` are not to be shown.

    ``last_stable_offset`` is where the oldest transaction started that was open after the marker: of no later entry
    does a record lie before it.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def encode_entries(entries: list[AbortedTransaction]) -> bytes:
    """The bytes of a file that holds ``entries``."""
    return b"".join(ENTRY.pack(VERSION, *entry) for entry in entries)


def decode_entries(data: bytes) -> list[AbortedTransaction]:
    """What ``encode_entries`` wrote; DamagedIndex when it cannot be that."""
    if len(data) % ENTRY.size:
        raise DamagedIndex(f"{len(data)} bytes are no number of whole entries")
    entries = []
    last_offset = -1
    for version, *fields in ENTRY.iter_unpack(data):
        entry = AbortedTransaction(*fields)
        if version != VERSION or not (0 <= entry.first_offset <= entry.last_offset > last_offset):
            raise DamagedIndex(f"version {version}, {entry} after offset {last_offset}")
        last_offset = entry.last_offset
        entries.append(entry)
    return entries


class AbortedIndex:
    """Entries by column; what lies in the file is read when it is first asked for."""

    __slots__ = (
        "_filed",
        "_first_offsets",
        "_is_loaded",
        "_last_offsets",
        "_least",
        "_open_files",
        "_producer_ids",
        "_stable_offsets",
        "is_filed",
        "is_synced",
        "path",
    )

    def __init__(self, open_files: OpenFiles, path: str, *, is_filed: bool) -> None:
        self.path = path
        #: Whether there is a file.
        self.is_filed = is_filed
        #: Whether the disk has what the file has.
        self.is_synced = True
        self._open_files = open_files
        self._is_loaded = not is_filed
        self._take([])
        self._filed = 0

    def _take(self, entries: list[AbortedTransaction]) -> None:
        self._producer_ids = array("q")
        self._first_offsets = array("q")
        self._last_offsets = array("q")
        self._stable_offsets = array("q")
        #: The least first offset of each block.
        self._least = array("q")
        for entry in entries:
            self._add(entry)

    def _add(self, entry: AbortedTransaction) -> None:
        if len(self._first_offsets) % BLOCK == 0:
            self._least.append(entry.first_offset)
        elif entry.first_offset < self._least[-1]:
            self._least[-1] = entry.first_offset
        self._producer_ids.append(entry.producer_id)
        self._first_offsets.append(entry.first_offset)
        self._last_offsets.append(entry.last_offset)
        self._stable_offsets.append(entry.last_stable_offset)

    def __len__(self) -> int:
        self.load()
        return len(self._last_offsets)

    def __getitem__(self, at: int) -> AbortedTransaction:
        self.load()
        return AbortedTransaction(
            self._producer_ids[at], self._first_offsets[at], self._last_offsets[at], self._stable_offsets[at]
        )

    def __iter__(self) -> Iterator[AbortedTransaction]:
        return (self[at] for at in range(len(self)))

    def load(self) -> None:
        """Take over what the file holds; DamagedIndex when that is not as it was written."""
        if not self._is_loaded:
            self._take(decode_entries(self._read()))
            self._filed = len(self._last_offsets)
            self._is_loaded = True

    def _read(self) -> bytes:
        try:
            file = self._open_files.get(self.path)
        except FileNotFoundError:
            return b""
        return file.read(0, file.size)

    def append(self, entry: AbortedTransaction) -> None:
        """Note a transaction whose marker is the last in the segment so far."""
        self.load()
        self._add(entry)

    def overlapping(self, offset: int, upper: int) -> list[AbortedTransaction]:
        """The transactions with a record or their marker at ``offset`` or later, and a record before ``upper``."""
        self.load()
        lasts, stables = self._last_offsets, self._stable_offsets
        at = bisect_left(lasts, offset)
        # Stable offsets only grow, and nothing behind one that reaches ``upper`` began before it.
        count = min(bisect_left(stables, upper, at) + 1, len(lasts))
        found: list[AbortedTransaction] = []
        while at < count:
            end = min(count, at - at % BLOCK + BLOCK)
            if self._least[at // BLOCK] < upper:
                rows = zip(
                    self._producer_ids[at:end], self._first_offsets[at:end], lasts[at:end], stables[at:end], strict=True
                )
                found += [AbortedTransaction._make(row) for row in rows if row[1] < upper]
            at = end
        return found

    # Files.

    @property
    def is_pending(self) -> bool:
        """Whether entries wait in memory."""
        return self._is_loaded and len(self._last_offsets) > self._filed

    def flush(self) -> None:
        """Append what waits in memory to the file."""
        if self.is_pending:
            self._cut_file()
            pending = [self[at] for at in range(self._filed, len(self._last_offsets))]
            file = self._open_files.open(self.path, writable=True, create=True)
            file.append(encode_entries(pending))
            file.close()
            self._filed = len(self._last_offsets)

    def keep_below(self, offset: int) -> None:
        """Cut every entry whose marker is at ``offset`` or later."""
        self.load()
        count = bisect_left(self._last_offsets, offset)
        self._take([self[at] for at in range(count)])
        if count < self._filed:
            self._filed = count
            self._cut_file()

    def trust_below(self, offset: int, base_offset: int) -> None:
        """As ``keep_below``, of a file that a crash left behind: after what was flushed may come anything."""
        data = self._read()
        entries: list[AbortedTransaction] = []
        for version, *fields in ENTRY.iter_unpack(data[: len(data) - len(data) % ENTRY.size]):
            entry = AbortedTransaction(*fields)
            previous = entries[-1].last_offset if entries else base_offset - 1
            is_whole = version == VERSION and 0 <= entry.first_offset <= entry.last_offset > previous
            if not is_whole or entry.last_offset >= offset:
                break
            entries.append(entry)
        self._take(entries)
        self._filed = len(entries)
        self._is_loaded = True
        if len(data) != self._filed * ENTRY.size:
            self._cut_file()

    def replace(self, entries: list[AbortedTransaction]) -> None:
        """Hold these alone; they reach the file with the next flush."""
        self._take(entries)
        self._is_loaded = True
        self._filed = 0
        self._cut_file()

    def _cut_file(self) -> None:
        """Let the file end with the entries that are in it and count."""
        self.is_filed = True
        self.is_synced = False
        self._open_files.forget(self.path)
        file = self._open_files.open(self.path, writable=True, create=True)
        if file.size != self._filed * ENTRY.size:
            file.truncate(self._filed * ENTRY.size)
        file.close()
