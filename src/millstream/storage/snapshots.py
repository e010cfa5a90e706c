"""The producer snapshots in a partition's folder, by the offset each was taken at."""

import logging
from bisect import bisect_right, insort

from millstream.storage.files import Files
from millstream.storage.open_files import OpenFiles
from millstream.storage.producer_snapshot import SUFFIX, DamagedSnapshot, decode_snapshot, encode_snapshot
from millstream.storage.producer_state import Producer, ProducerStates

_log = logging.getLogger(__name__)


class Snapshots:
    """Kept: one per closed segment (taken when it was closed), and the newest."""

    __slots__ = ("_files", "_open_files", "folder", "offsets", "unsynced")

    def __init__(self, files: Files, open_files: OpenFiles, folder: str) -> None:
        self._files = files
        self._open_files = open_files
        self.folder = folder
        #: Where snapshots were taken, oldest first.
        self.offsets: list[int] = []
        #: Those that the disk may not have yet.
        self.unsynced: set[int] = set()

    def path(self, offset: int) -> str:
        return f"{self.folder}/{offset:020d}{SUFFIX}"

    def write(self, producers: ProducerStates) -> None:
        """Take a snapshot now, without waiting for the disk: one lost is made good from the log."""
        self._open_files.replace(self.path(producers.end_offset), encode_snapshot(producers))
        self.note(producers.end_offset)
        self.unsynced.add(producers.end_offset)

    def note(self, offset: int) -> None:
        """A snapshot was written at ``offset``."""
        if offset not in self.offsets:
            insort(self.offsets, offset)

    def newest(self, limit: int) -> tuple[int, list[Producer]] | None:
        """The newest readable snapshot at or before ``limit``; damaged ones on the way are removed."""
        for offset in reversed(self.offsets[: bisect_right(self.offsets, limit)]):
            try:
                return offset, decode_snapshot(self._files.read(self.path(offset)))
            except (DamagedSnapshot, FileNotFoundError) as damage:
                _log.warning("%s is damaged and an older one has to do: %s", self.path(offset), damage)
                self.remove(offset)
        return None

    def remove(self, offset: int) -> None:
        self.unsynced.discard(offset)
        if offset in self.offsets:
            self.offsets.remove(offset)
            self._files.remove(self.path(offset))

    def remove_after(self, offset: int) -> None:
        for taken in self.offsets[bisect_right(self.offsets, offset) :]:
            self.remove(taken)

    def remove_before(self, offset: int) -> None:
        for taken in [each for each in self.offsets if each < offset]:
            self.remove(taken)

    def remove_strays(self, bases: list[int]) -> None:
        """Remove those that belong to no segment, except the newest."""
        kept = set(bases)
        for taken in [each for each in self.offsets[:-1] if each not in kept]:
            self.remove(taken)
