"""One segment of a log: a file of batches named after its first offset, and its indexes."""

import logging

from millstream.model.batch import HEADER_BYTES, NO_TIMESTAMP, BatchHeader, header_at
from millstream.storage.aborted_index import ABORTED_INDEX_SUFFIX, AbortedIndex, AbortedTransaction
from millstream.storage.files import File
from millstream.storage.index import Index, OffsetIndex, TimeIndex
from millstream.storage.open_files import OpenFiles
from millstream.storage.walk import STRIDE_BYTES, DamagedBatch, Place, headers, places

LOG_SUFFIX = ".log"
OFFSET_INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
SEGMENT_SUFFIXES = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, ABORTED_INDEX_SUFFIX)
DELETED_SUFFIX = ".deleted"
#: Offsets in the indexes are relative to the segment's first, in 31 bits.
RELATIVE_OFFSET_MAX = 2**31 - 1

_log = logging.getLogger(__name__)


def offset_name(offset: int) -> str:
    """An offset as files are named by it."""
    return f"{offset:020d}"


class Segment:
    """Batches from ``base_offset`` on.  The active one is written to; the others are read through ``open_files``."""

    __slots__ = (
        "_is_loaded",
        "_max_timestamp",
        "_max_timestamp_offset",
        "_open_files",
        "aborted",
        "base_offset",
        "created_ms",
        "file",
        "first_timestamp",
        "offsets",
        "roll_jitter_ms",
        "size",
        "stem",
        "times",
        "unindexed_bytes",
    )

    def __init__(self, open_files: OpenFiles, folder: str, base_offset: int, size: int, created_ms: int) -> None:
        self.base_offset = base_offset
        self.stem = f"{folder}/{base_offset:020d}"
        self.size = size
        self.created_ms = created_ms
        #: Open for writing while the segment is active and has been written to; None otherwise.
        self.file: File | None = None
        self.offsets = OffsetIndex(open_files, f"{self.stem}{OFFSET_INDEX_SUFFIX}")
        self.times = TimeIndex(open_files, f"{self.stem}{TIME_INDEX_SUFFIX}")
        #: The transactions whose abort is in this segment; None when there is none.
        self.aborted: AbortedIndex | None = None
        #: The first batch's greatest timestamp: age is counted from it.
        self.first_timestamp = NO_TIMESTAMP
        self.roll_jitter_ms = 0
        self.unindexed_bytes = 0
        self._open_files = open_files
        self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = base_offset
        self._is_loaded = size == 0

    @property
    def path(self) -> str:
        return f"{self.stem}{LOG_SUFFIX}"

    @property
    def paths(self) -> list[str]:
        return [f"{self.stem}{suffix}" for suffix in SEGMENT_SUFFIXES]

    @property
    def max_timestamp(self) -> int:
        """The greatest timestamp in the segment, -1 when it has none."""
        self._load()
        return self._max_timestamp

    @property
    def max_timestamp_offset(self) -> int:
        """The last offset of the first batch with the greatest timestamp."""
        self._load()
        return self._max_timestamp_offset

    def create(self) -> None:
        """Make the segment's file, empty; its indexes' follow with the first flush."""
        self._open_files.forget(self.path)
        self.file = self._open_files.open(self.path, writable=True, create=True)
        if self.file.size:
            self.file.truncate(0)

    def reader(self) -> File:
        """The file, to read from."""
        return self.file if self.file is not None else self._open_files.get(self.path)

    def writer(self) -> File:
        """The file, to append to; it stays open until ``release``."""
        if self.file is None:
            self._open_files.forget(self.path)
            file = self._open_files.open(self.path, writable=True, create=True)
            if file.size != self.size:
                file.truncate(self.size)
            self.file = file
        return self.file

    def release(self) -> None:
        """No more will be written: the file closes once nobody reads or flushes it."""
        self.file = None

    def note_batch(
        self, position: int, size: int, last_offset: int, max_timestamp: int, index_interval_bytes: int
    ) -> None:
        """Index a batch that was written at ``position``."""
        if position == 0:
            self.first_timestamp = max_timestamp
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        if self.unindexed_bytes > index_interval_bytes:
            self.offsets.append(last_offset - self.base_offset, position)
            self.times.extend_to(self._max_timestamp, self._max_timestamp_offset - self.base_offset)
            self.unindexed_bytes = 0
        self.unindexed_bytes += size

    def note_aborted(self, entry: AbortedTransaction) -> None:
        """A marker was written that ends a transaction in vain."""
        if self.aborted is None:
            self.expect_aborted(is_filed=False)
        assert self.aborted is not None
        self.aborted.append(entry)

    def expect_aborted(self, *, is_filed: bool = True) -> None:
        """There is a file of aborted transactions, or there will be."""
        self.aborted = AbortedIndex(self._open_files, f"{self.stem}{ABORTED_INDEX_SUFFIX}", is_filed=is_filed)

    @property
    def indexes(self) -> list[Index | AbortedIndex]:
        """Whatever stands beside the batches."""
        return [self.offsets, self.times] if self.aborted is None else [self.offsets, self.times, self.aborted]

    def waited_ms(self, timestamp: int, now_ms: int) -> int:
        """How old the segment is to a batch of ``timestamp``: by its first batch, without one by the clock."""
        return timestamp - self.first_timestamp if self.first_timestamp >= 0 else now_ms - self.created_ms

    def seal_times(self) -> None:
        """Note the greatest timestamp as the time index's last entry, as a closed segment has it."""
        self._load()
        self.times.extend_to(self._max_timestamp, self._max_timestamp_offset - self.base_offset)

    def flush_indexes(self) -> None:
        for index in self.indexes:
            index.flush()

    # Finding.

    def find(self, offset: int) -> Place | None:
        """The first batch whose last offset is at least ``offset``; None when all are before it."""
        self._load()
        try:
            return self._find(offset)
        except DamagedBatch as damage:
            # The index or the batches are damaged; if the batches are, making the index anew says so again.
            _log.warning("%s: %s; its indexes are made anew", self.path, damage)
            self.rebuild_indexes()
            return self._find(offset)

    def _find(self, offset: int) -> Place | None:
        entry = self.offsets.floor(offset - self.base_offset)
        position = entry[1] if entry is not None else 0
        if not 0 <= position <= self.size:
            raise DamagedBatch(position, "an index entry points outside the file")
        is_first = True
        for place in places(self.reader(), position, self.size):
            if is_first and ((place.base_offset > offset and position) or place.base_offset < self.base_offset):
                raise DamagedBatch(position, f"offset {place.base_offset} where {offset} should be at hand")
            is_first = False
            if place.last_offset >= offset:
                return place
        return None

    def first_batch(self, timestamp: int, offset: int) -> tuple[int, BatchHeader] | None:
        """Position and header of the first batch from ``offset`` on that has a record at or after ``timestamp``."""
        self._load()
        # All up to a noted offset is at or before its timestamp, so one before ``timestamp`` can be skipped whole.
        entry = self._trusted_time(timestamp - 1)
        after = self.base_offset + entry[1] + 1 if entry is not None else self.base_offset
        place = self.find(max(after, offset))
        if place is None:
            return None
        batches = headers(self.reader(), place.position, self.size)
        return next(((position, header) for position, header in batches if header.max_timestamp >= timestamp), None)

    def _trusted_time(self, timestamp: int) -> tuple[int, int] | None:
        """The time index's answer, if the batch it names agrees; the index is made anew when it does not."""
        entry = self.times.floor(timestamp)
        if entry is None or self._agrees(entry):
            return entry
        _log.warning("%s does not agree with its segment; it is made anew", self.times.path)
        self.rebuild_indexes()
        return self.times.floor(timestamp)

    def _agrees(self, entry: tuple[int, int]) -> bool:
        timestamp, relative_offset = entry
        try:
            place = self._find(self.base_offset + relative_offset) if relative_offset >= 0 else None
        except DamagedBatch:
            return False
        return (
            place is not None and header_at(self.reader().read(place.position, HEADER_BYTES)).max_timestamp == timestamp
        )

    # Loading and cutting.

    def _load(self) -> None:
        if not self._is_loaded:
            self.load()

    def load(self) -> int:
        """Take over the indexes, made anew where missing or damaged; the offset after the last batch."""
        self._is_loaded = True
        if not self.size:
            return self.base_offset
        try:
            self.offsets.load()
            self.times.load()
            next_offset = self._check_tail()
            if self.times.last is not None and not self._agrees(self.times.last):
                raise DamagedBatch(0, "the time index names a batch of another time")
            return next_offset
        except FileNotFoundError:
            _log.warning("%s: an index is missing and is made anew", self.path)
        except DamagedBatch as damage:
            _log.warning("%s: %s; its indexes are made anew", self.path, damage)
        return self.rebuild_indexes()

    def _check_tail(self) -> int:
        """Walk from the last index entry to the end, where greatest timestamp and next offset become known."""
        next_offset, position = self.base_offset, 0
        if self.offsets.last is not None:
            relative_offset, position = self.offsets.last
            if not 0 <= position < self.size or relative_offset < 0:
                raise DamagedBatch(position, "the last index entry points outside the file")
        if self.times.last is not None:
            self._max_timestamp, relative_offset = self.times.last
            self._max_timestamp_offset = self.base_offset + relative_offset
        reader = self.reader()
        for at, header in headers(reader, position, self.size):
            if at == position and self.offsets.last is not None:
                if header.last_offset > self.base_offset + self.offsets.last[0]:
                    raise DamagedBatch(at, "the last index entry names another batch")
                self.unindexed_bytes = 0
            self.unindexed_bytes += header.size
            next_offset = header.next_offset
            if header.max_timestamp > self._max_timestamp:
                self._max_timestamp = header.max_timestamp
                self._max_timestamp_offset = header.last_offset
        if self._max_timestamp_offset >= next_offset > self.base_offset:
            raise DamagedBatch(position, "the time index names an offset past the end")
        if self.size:
            self.first_timestamp = header_at(reader.read(0, HEADER_BYTES)).max_timestamp
        return next_offset

    def rebuild_indexes(self, index_interval_bytes: int = 4096) -> int:
        """Make offset and time index from the batches; the offset after the last of them."""
        self._clear(is_empty=True)
        next_offset = self.base_offset
        for position, header in headers(self.reader(), 0, self.size, STRIDE_BYTES):
            next_offset = header.next_offset
            self.note_batch(position, header.size, header.last_offset, header.max_timestamp, index_interval_bytes)
        self.sync_indexes()
        return next_offset

    def sync_indexes(self) -> None:
        """Bring both indexes to the disk, where they are taken for whole after a crash.

        First the times: batches that an offset is noted behind are not looked at again to find theirs.
        """
        for index in (self.times, self.offsets):
            index.flush()
            self._open_files.make_durable(index.path)
            index.is_synced = True

    def trust_below(self, offset: int) -> int:
        """Keep only index entries below ``offset``, and if they cannot be trusted none; where to go on from."""
        self._clear(is_empty=False)
        if self.aborted is not None:
            self.aborted.trust_below(offset, self.base_offset)
        self.offsets.trust(offset - self.base_offset)
        if self.offsets.last is not None and not self._names_a_batch(*self.offsets.last):
            _log.warning("%s does not agree with its segment; it is made anew", self.offsets.path)
            self.offsets.reset()
        position, bound = 0, 0
        if self.offsets.last is not None:
            bound, position = self.offsets.last
        # The batch at ``position`` is looked at again, so only times before it need to be known.
        self.times.trust(bound, by_value=True)
        if self.times.last is not None and not self._agrees(self.times.last):
            _log.warning("%s does not agree with its segment; it is made anew", self.times.path)
            self._clear(is_empty=True)
            return 0
        if self.times.last is not None:
            self._max_timestamp, relative_offset = self.times.last
            self._max_timestamp_offset = self.base_offset + relative_offset
        return position

    def _names_a_batch(self, relative_offset: int, position: int) -> bool:
        try:
            place = next(places(self.reader(), position, self.size), None)
        except DamagedBatch:
            return False
        last_offset = self.base_offset + relative_offset
        return place is not None and self.base_offset <= place.base_offset and place.last_offset <= last_offset

    def _clear(self, *, is_empty: bool) -> None:
        self._is_loaded = True
        self.unindexed_bytes = 0
        self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = self.base_offset
        if is_empty:
            self.offsets.reset()
            self._open_files.make_durable(self.offsets.path)  # See ``sync_indexes``.
            self.times.reset()

    def cut(self, position: int, end_offset: int) -> None:
        """Remove every batch from ``position`` on; ``end_offset`` is the first offset then missing.

        They are gone for good when it returns: a loss of power could bring them back in front of what is written next.
        """
        self._load()
        writer = self.writer()
        writer.truncate(position)
        writer.flush()
        self.size = position
        relative_end = end_offset - self.base_offset
        self.offsets.keep(self.offsets.rank(relative_end))
        self.times.keep(self.times.rank(relative_end, by_value=True))
        if self.aborted is not None:
            self.aborted.keep_below(end_offset)
        self._max_timestamp, self._max_timestamp_offset = NO_TIMESTAMP, self.base_offset
        self._check_tail()
