"""The segments of one log, in order; the last one is written to."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from millstream.config.topic import TopicConfig
from millstream.storage.aborted_index import ABORTED_INDEX_SUFFIX, AbortedTransaction
from millstream.storage.directory import LogDirectory
from millstream.storage.segment import DELETED_SUFFIX, LOG_SUFFIX, Segment
from millstream.storage.swap import swap_in


class Segments:
    """Never empty once ``adopt`` or ``restart`` was called."""

    __slots__ = ("_bases", "_directory", "_list", "active", "folder", "with_aborted")

    def __init__(self, directory: LogDirectory, folder: str) -> None:
        self._directory = directory
        self.folder = folder
        self._list: list[Segment] = []
        self._bases: list[int] = []
        #: Those that know of aborted transactions.
        self.with_aborted: list[Segment] = []

    def __len__(self) -> int:
        return len(self._list)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._list)

    def __getitem__(self, at: int) -> Segment:
        return self._list[at]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._list)

    @property
    def bases(self) -> list[int]:
        """The first offset of each segment."""
        return self._bases

    def adopt(self, segments: list[Segment]) -> None:
        """Stand on segments that were loaded."""
        self._set(segments)
        self.active = segments[-1]

    def _set(self, segments: list[Segment]) -> None:
        self._list = segments
        self._bases = [segment.base_offset for segment in segments]
        self.with_aborted = [segment for segment in segments if segment.aborted is not None]

    def note_aborted(self, entry: AbortedTransaction) -> None:
        """A marker was written to the active segment that ends a transaction in vain."""
        if self.active.aborted is None:
            self.with_aborted.append(self.active)
        self.active.note_aborted(entry)

    def since(self, offset: int) -> list[Segment]:
        """The segment that holds ``offset``, and those after it."""
        return self._list[max(bisect_right(self._bases, offset) - 1, 0) :]

    def begin(self, base_offset: int, config: TopicConfig) -> Segment:
        """Start a new active segment."""
        directory = self._directory
        segment = Segment(directory.open_files, self.folder, base_offset, 0, directory.clock.now_ms())
        jitter_ms = min(config.segment_jitter_ms, config.segment_ms)
        if jitter_ms > 0:
            segment.roll_jitter_ms = directory.random.randrange(jitter_ms)
        segment.create()
        self.adopt([*self._list, segment])
        return segment

    def drop(self, dropped: list[Segment], delay_ms: int) -> int:
        """Take segments out of the log; their files go after ``delay_ms``, when no reader has them any more.

        The caller sees to it that a segment is left, or begins one.
        """
        gone = set(map(id, dropped))
        self._set([segment for segment in self._list if id(segment) not in gone])
        if self._list:
            self.active = self._list[-1]
        for segment in dropped:
            self._mark_deleted(segment, delay_ms)
        return sum(segment.size for segment in dropped)

    def _mark_deleted(self, segment: Segment, delay_ms: int) -> None:
        files = self._directory.files
        segment.release()
        for path in segment.paths:
            self._directory.open_files.forget(path)
            if files.exists(path):
                files.rename(path, path + DELETED_SUFFIX)
                self._directory.doom(path + DELETED_SUFFIX, delay_ms)

    def replace(self, base_offset: int, replaced: Sequence[int], delay_ms: int) -> None:
        """Put the cleaned segment of ``base_offset``, whose files are all on disk, in the place of some closed ones."""
        directory = self._directory
        old = [segment for segment in self._list if segment.base_offset in replaced]
        for segment in old:
            segment.release()
            for path in segment.paths:
                directory.open_files.forget(path)
        for path in swap_in(directory.files, self.folder, base_offset, replaced):
            directory.doom(path, delay_ms)
        size = directory.files.size(f"{self.folder}/{base_offset:020d}{LOG_SUFFIX}")
        new = Segment(directory.open_files, self.folder, base_offset, size, directory.clock.now_ms())
        if directory.files.exists(new.stem + ABORTED_INDEX_SUFFIX):
            new.expect_aborted()
        kept = [segment for segment in self._list if segment not in old]
        self.adopt(sorted([*kept, new], key=lambda segment: segment.base_offset))

    def pieces(self, start_offset: int, end_offset: int) -> list[Segment]:
        """The segments that hold any of the offsets from ``start_offset`` up to ``end_offset``."""
        return [segment for segment in self.since(start_offset) if segment.base_offset < end_offset]

    def end_of(self, at: int, end_offset: int) -> int:
        """The first offset past the ``at``-th segment, in a log that ends at ``end_offset``."""
        return self._bases[at + 1] if at + 1 < len(self._bases) else end_offset
