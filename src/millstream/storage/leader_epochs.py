"""Which leader wrote which offsets: what a follower truncates by, kept in ``leader-epoch-checkpoint``."""

from bisect import bisect_right
from typing import Protocol

from millstream.model.batch import NO_LEADER_EPOCH
from millstream.storage.checkpoint import decode_epochs, encode_epochs
from millstream.storage.directory import LogDirectory

NO_OFFSET = -1


class HasEnd(Protocol):
    """The log these epochs are of."""

    end_offset: int


class LeaderEpochs:
    """Epochs and the offset each began at, both growing.

    An epoch is written down before the first batch under it, so it outlives the process; a flush makes it outlive
    the machine.  One lost with the machine is found again in the batches, which all carry their epoch, and one that
    was cut off is refuted by them.  An epoch under which nothing was written leaves no trace: whoever reads the
    file forgets those that begin at the log's end.
    """

    __slots__ = ("_directory", "_epochs", "_log", "_starts", "is_behind", "is_synced", "latest", "path")

    def __init__(self, directory: LogDirectory, path: str, log: HasEnd) -> None:
        self._directory = directory
        self._log = log
        self.path = path
        self._epochs: list[int] = []
        self._starts: list[int] = []
        #: The greatest epoch known, -1 when none is.
        self.latest = NO_LEADER_EPOCH
        #: Whether the file has yet to learn of a change before the log grows.
        self.is_behind = False
        self.is_synced = True

    def __len__(self) -> int:
        return len(self._epochs)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """Epoch and start offset of each, oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    def load(self) -> None:
        """Take over what the file holds; DamagedCheckpoint or FileNotFoundError when it cannot be had."""
        for epoch, start_offset in decode_epochs(self._directory.files.read(self.path)):
            self._put(epoch, start_offset)

    def assign(self, epoch: int, start_offset: int) -> None:
        """``epoch`` begins at ``start_offset``; nothing happens when it is known already.

        Whoever writes under it calls ``rewrite`` first.
        """
        if epoch > self.latest:
            self._put(epoch, start_offset)
            self.is_behind = True

    def _put(self, epoch: int, start_offset: int) -> None:
        """Add an entry; those that it contradicts (a later start, a greater epoch) give way."""
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start_offset):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self.latest = epoch

    def found(self, epoch: int, first_offset: int, last_offset: int) -> None:
        """Batches from one offset to the other are of ``epoch``: greater ones that claim to begin there never did.

        They were cut off, and the file that says so was lost with the machine.
        """
        if self.epoch_at(last_offset) > epoch:
            at = bisect_right(self._epochs, epoch)
            self.truncate_from(self._starts[at])
        self.assign(epoch, first_offset)

    def epoch_at(self, offset: int) -> int:
        """The epoch that wrote ``offset``, -1 when none is known."""
        at = bisect_right(self._starts, offset)
        return self._epochs[at - 1] if at else NO_LEADER_EPOCH

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """The greatest epoch not above ``epoch`` and where it ended; (-1, -1) when ``epoch`` is newer than all known.

        Asked for an epoch older than all known, whose offsets are gone, the oldest one's start has to do.
        """
        if epoch == NO_LEADER_EPOCH or epoch > self.latest:
            return NO_LEADER_EPOCH, NO_OFFSET
        at = bisect_right(self._epochs, epoch)
        if at == 0:
            return epoch, self._starts[0]
        end_offset = self._starts[at] if at < len(self._starts) else self._log.end_offset
        return self._epochs[at - 1], end_offset

    def truncate_from(self, offset: int) -> None:
        """The log now ends at ``offset``: forget epochs that began there or later.

        The file may keep them until the log grows, for they are forgotten whenever it is read.
        """
        while self._starts and self._starts[-1] >= offset:
            self._epochs.pop()
            self._starts.pop()
            self.is_behind = True
        self.latest = self._epochs[-1] if self._epochs else NO_LEADER_EPOCH

    def truncate_before(self, offset: int) -> None:
        """The log now starts at ``offset``: forget epochs that ended before, let the one that wrote it start there."""
        at = bisect_right(self._starts, offset) - 1
        if at > 0 or (at == 0 and self._starts[0] < offset):
            del self._epochs[:at], self._starts[:at]
            self._starts[0] = offset
            self._write()

    def clear(self) -> None:
        if self._epochs:
            self._epochs.clear()
            self._starts.clear()
            self.latest = NO_LEADER_EPOCH
            self._write()

    def rewrite(self) -> None:
        """Write the file if it is behind."""
        if self.is_behind:
            self._write()

    def _write(self) -> None:
        self.is_behind = False
        self.is_synced = False
        try:
            self._directory.open_files.replace(self.path, encode_epochs(self.entries))
        except OSError as error:
            raise self._directory.fail(error) from error
