"""The segments of one log, in order; the last one is written to."""

from bisect import bisect_right
from collections.abc import Iterator

from millstream.config.topic import TopicConfig
from millstream.storage.directory import LogDirectory
from millstream.storage.segment import DELETED_SUFFIX, Segment

SWAP_SUFFIX = ".swap"
CLEANED_SUFFIX = ".cleaned"


class Segments:
    """Never empty once ``adopt`` or ``restart`` was called."""

    __slots__ = ("_bases", "_directory", "_list", "active", "folder")

    def __init__(self, directory: LogDirectory, folder: str) -> None:
        self._directory = directory
        self.folder = folder
        self._list: list[Segment] = []
        self._bases: list[int] = []

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
        self._list = segments
        self._bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]

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
        self._list = [segment for segment in self._list if id(segment) not in gone]
        self._bases = [segment.base_offset for segment in self._list]
        if self._list:
            self.active = self._list[-1]
        for segment in dropped:
            self._mark_deleted(segment, delay_ms)
        return sum(segment.size for segment in dropped)

    def _mark_deleted(self, segment: Segment, delay_ms: int) -> None:
        paths = segment.paths
        self.rename(segment, DELETED_SUFFIX)
        segment.release()
        for path in paths:
            self._directory.doom(path + DELETED_SUFFIX, delay_ms)

    def rename(self, segment: Segment, suffix: str) -> None:
        """Let the segment's files end with ``suffix`` instead of the one they have."""
        files = self._directory.files
        for path in segment.paths:
            self._directory.open_files.forget(path)
            bare = path.removesuffix(segment.suffix) if segment.suffix else path
            if files.exists(path):
                files.rename(path, bare + suffix)
        segment.set_suffix(suffix)

    def replace(self, old: list[Segment], new: list[Segment], delay_ms: int) -> None:
        """Put ``new`` segments, written as ``.cleaned``, in the place of ``old`` ones.

        A crash leaves ``.cleaned`` files, which are dropped, or ``.swap`` files, whose swap is then completed.
        """
        files = self._directory.files
        # The last one first: while any .cleaned is left, a .swap at or after it is known to be unfinished.
        for segment in reversed(new):
            self.rename(segment, SWAP_SUFFIX)
        files.sync_folder(self.folder)
        gone = set(map(id, old))
        for segment in old:
            self._mark_deleted(segment, delay_ms)
        for segment in new:
            self.rename(segment, "")
        files.sync_folder(self.folder)
        kept = [segment for segment in self._list if id(segment) not in gone]
        self.adopt(sorted([*kept, *new], key=lambda segment: segment.base_offset))

    def pieces(self, start_offset: int, end_offset: int) -> list[Segment]:
        """The segments that hold any of the offsets from ``start_offset`` up to ``end_offset``."""
        return [segment for segment in self.since(start_offset) if segment.base_offset < end_offset]

    def end_of(self, at: int, end_offset: int) -> int:
        """The first offset past the ``at``-th segment, in a log that ends at ``end_offset``."""
        return self._bases[at + 1] if at + 1 < len(self._bases) else end_offset
