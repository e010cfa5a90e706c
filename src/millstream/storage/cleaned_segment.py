"""A compacted segment while it is being written: batches at the end, indexes beside."""

from bisect import bisect_right
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from millstream.model.batch import NO_TIMESTAMP
from millstream.storage.aborted_index import AbortedTransaction, encode_entries
from millstream.storage.files import Buffer, File, Files
from millstream.storage.index import OffsetIndex, TimeIndex
from millstream.storage.swap import ABORTED_INDEX, CLEANED, INDEXES, LOG, SEGMENT_FILES, segment_path

Ints = npt.NDArray[np.int64]

#: Flushed as it grows: hundreds of megabytes at once would hold up everyone else's writes to the same disk.
FLUSH_STEP_BYTES = 8 * 1024 * 1024
#: Positions in the offset index are 31 bits wide.
SEGMENT_BYTES_MAX = (1 << 31) - 1


class OutBatch(NamedTuple):
    """What the indexes need to know of a batch."""

    size: int
    last_offset: int
    max_timestamp: int


class CleanedSegment:
    """Writes X.log.cleaned and its indexes, as Kafka's own appends would make them."""

    def __init__(self, files: Files, folder: str, base_offset: int, index_interval_bytes: int) -> None:
        self.base_offset = base_offset
        self._files = files
        self._folder = folder
        self._interval_bytes = index_interval_bytes
        for kind in SEGMENT_FILES:  # What an earlier try left behind.
            files.remove(segment_path(folder, base_offset, kind + CLEANED))
        self._log = self._create(LOG)
        self._flushed_size = 0
        self._offsets = bytearray()
        self._times = bytearray()
        self._indexed_position = 0
        self._max_timestamp = NO_TIMESTAMP
        self._max_timestamp_offset = base_offset
        self._noted_timestamp = NO_TIMESTAMP

    @property
    def size(self) -> int:
        return self._log.size

    def append(self, data: Buffer, batches: list[OutBatch]) -> None:
        """Write whole batches that lie one after the other in ``data``."""
        start = self._log.size
        if start + len(data) > SEGMENT_BYTES_MAX:
            raise ValueError(f"the compacted segment {self.base_offset} would pass {SEGMENT_BYTES_MAX} bytes")
        self._log.append(data)
        if self._log.size - self._flushed_size >= FLUSH_STEP_BYTES:
            self._log.flush()
            self._flushed_size = self._log.size
        if not batches:
            return
        sizes, last_offsets, timestamps = (np.array(column, np.int64) for column in zip(*batches, strict=True))
        positions: list[int] = (start + np.cumsum(sizes) - sizes).tolist()
        greatest = np.maximum.accumulate(np.maximum(timestamps, self._max_timestamp))
        brought_by = self._brought_by(greatest, last_offsets)
        at = bisect_right(positions, self._indexed_position + self._interval_bytes)
        while at < len(positions):
            self._offsets += OffsetIndex.ENTRY.pack(int(last_offsets[at]) - self.base_offset, positions[at])
            self._note_time(int(greatest[at]), int(brought_by[at]))
            self._indexed_position = positions[at]
            at = bisect_right(positions, self._indexed_position + self._interval_bytes)
        self._max_timestamp = int(greatest[-1])
        self._max_timestamp_offset = int(brought_by[-1])

    def _brought_by(self, greatest: Ints, last_offsets: Ints) -> Ints:
        """The last offset of the batch that brought the greatest timestamp so far, at each batch."""
        rises = np.diff(greatest, prepend=self._max_timestamp) > 0
        risen_at = np.maximum.accumulate(np.where(rises, np.arange(len(rises)), -1))
        return np.where(risen_at < 0, self._max_timestamp_offset, last_offsets[risen_at])

    def _note_time(self, timestamp: int, offset: int) -> None:
        if timestamp > self._noted_timestamp:
            self._times += TimeIndex.ENTRY.pack(timestamp, offset - self.base_offset)
            self._noted_timestamp = timestamp

    def close(self, aborted: list[AbortedTransaction]) -> None:
        """Return when the log and its indexes are on disk, but for their names."""
        self._note_time(self._max_timestamp, self._max_timestamp_offset)
        indexes: dict[str, Buffer] = dict(zip(INDEXES, (self._offsets, self._times), strict=True))
        if aborted:
            indexes[ABORTED_INDEX] = encode_entries(aborted)
        for kind, entries in indexes.items():
            index = self._create(kind)
            index.append(entries)
            index.flush()
            index.close()
        self._log.flush()
        self._log.close()

    def _create(self, kind: str) -> File:
        return self._files.open(
            segment_path(self._folder, self.base_offset, kind + CLEANED), writable=True, create=True
        )
