"""A log on its way to another directory: copied beside its use, and put in the other's place when it has everything.

As in Kafka the copy lies in a folder that ends in ``-future``.  One that a broker finds at its start is of a move that
did not end, and is removed: whoever still wants it asks again.  The origin is marked just before the copy takes its
place, so that after a crash, or on a disk that failed just then, it is never taken for the log.
"""

from typing import TYPE_CHECKING

from millstream.model.batch import HEADER_BYTES, header_at
from millstream.model.slices import FileSlice
from millstream.model.workers import Workers
from millstream.storage.directory import FULL, LogDirectory

if TYPE_CHECKING:
    from millstream.storage.log import Log

FUTURE_SUFFIX = "-future"
#: In a folder whose log may lie in another directory by now.
MOVED = ".millstream_moved"
#: How much is copied before others have their turn.
CHUNK_BYTES = 1024 * 1024


def mark_moved(origin: "Log") -> None:
    """From here on the log counts only where its copy is found nowhere.

    A full disk may have no room for the mark; its logs may leave all the same.
    """
    try:
        origin.directory.files.replace(f"{origin.folder}/{MOVED}", b"")
    except OSError as error:
        if error.errno not in FULL:
            raise origin.directory.fail(error) from error


def mark_stayed(log: "Log") -> None:
    """The log's copy did not come into its place."""
    try:
        log.directory.files.remove(f"{log.folder}/{MOVED}")
        log.directory.files.sync_folder(log.folder)
    except OSError as error:
        raise log.directory.fail(error) from error


def is_marked(log: "Log") -> bool:
    """Whether the log may lie elsewhere by now."""
    return log.directory.files.exists(f"{log.folder}/{MOVED}")


class Copy:
    """All that ``origin`` holds, again in ``directory``; a cut of the origin makes it worthless."""

    def __init__(self, origin: "Log", directory: LogDirectory) -> None:
        from millstream.storage.log import Log

        self.origin = origin
        self._cuts = origin.flusher.cuts
        name = f"{origin.topic_partition}.{directory.random.getrandbits(128):032x}{FUTURE_SUFFIX}"
        self.log = Log(directory, origin.topic_partition, origin.config, origin.topic_id, folder_name=name)
        first = origin.read(origin.start_offset, 0, origin.end_offset)
        # The first batch is copied whole, wherever in it the log starts.
        whole = None if first is None else header_at(first.file.read(first.position, HEADER_BYTES))
        self.log.begin_at(origin.start_offset if whole is None else min(whole.base_offset, origin.start_offset))

    @property
    def is_worthless(self) -> bool:
        """Whether the origin has lost records, is gone, or starts where the copy has not come yet."""
        origin = self.origin
        return origin.flusher.cuts != self._cuts or origin.is_deleted or origin.start_offset > self.log.end_offset

    @property
    def left(self) -> int:
        """How many records are still to be copied."""
        return max(self.origin.end_offset - self.log.end_offset, 0)

    async def catch_up(self, workers: Workers) -> None:
        """Copy until little is left, and bring it to the disk; whatever waits for a disk does so in a thread."""
        while not self.is_worthless and (piece := self._next()) is not None:
            is_near = self.log.end_offset >= self.origin.segments.active.base_offset and piece.length < CHUNK_BYTES
            data = await workers.in_thread(piece.read)
            self.log.append_as_follower(memoryview(data))
            if is_near:
                break
        await self.log.flusher.fill(workers)

    def finish(self) -> None:
        """Copy the rest, here and now, and bring it to the disk."""
        self.origin.settle()
        while (piece := self._next()) is not None:
            self.log.append_as_follower(memoryview(piece.read()))
        self.log.advance_start(max(self.origin.start_offset, self.log.start_offset))
        self.log.close()

    def _next(self) -> FileSlice | None:
        offset = max(self.log.end_offset, self.origin.start_offset)
        return self.origin.read(offset, CHUNK_BYTES, self.origin.end_offset)

    def discard(self) -> None:
        """Remove what was copied."""
        if not self.log.is_offline:
            self.log.delete()
