"""Where the logs of each directory stand, written down beside them: recovery points, starts, high watermarks.

A state is collected on the loop and may be written in a thread; an older one never replaces a newer.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from millstream.model.ids import TopicPartition
from millstream.model.workers import Workers
from millstream.storage.checkpoint import HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS, read_offsets
from millstream.storage.directory import LogDirectory
from millstream.storage.log import Log

Offsets = dict[TopicPartition, int]


class Noted(NamedTuple):
    """What a directory's files say."""

    recovery_points: Offsets
    starts: Offsets
    high_watermarks: Offsets


class Ledger:
    """Keeps the files of every directory; ``counts`` says of a log whether it is the one its partition is served from.

    Invariant: a log that is new in a directory inherits nothing.  The files name partitions, not topics, and would tell
    a namesake of one that was deleted where to start.
    """

    def __init__(self, counts: Callable[[Log], bool]) -> None:
        self._counts = counts
        self._version = 0
        #: By directory: partitions that its files may name and that have no log there, and the last state that may.
        self._left: dict[str, dict[TopicPartition, int]] = {}

    def read(self, directory: LogDirectory) -> Noted:
        """What was written down last."""
        names = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS)
        noted = Noted(*(read_offsets(directory.files, f"{directory.path}/{name}") for name in names))
        self._left[directory.path] = dict.fromkeys((each for offsets in noted for each in offsets), 0)
        return noted

    def left(self, log: Log) -> None:
        """The log is in its directory no more."""
        self._left.setdefault(log.directory.path, {})[log.topic_partition] = self._version

    def forget(self, directory: LogDirectory, topic_partition: TopicPartition) -> None:
        """Have no file name the partition, of which the directory has no log; on disk when it returns.

        That costs a wait only where one may name it, and the same wait serves all that have left.
        """
        if topic_partition in self._left.get(directory.path, {}):
            self.write(directory, read_offsets(directory.files, f"{directory.path}/{HIGH_WATERMARKS}"))

    def write(self, directory: LogDirectory, high_watermarks: Mapping[TopicPartition, int] | None = None) -> None:
        """Write a new state down, here and now; of high watermarks only where they are given."""
        version, state = self._collect(directory, high_watermarks)
        for name, offsets in state:
            directory.write_offsets(name, offsets, version)
        self._wrote(directory, version, is_whole=high_watermarks is not None)

    async def write_async(
        self,
        directory: LogDirectory,
        workers: Workers,
        high_watermarks: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """As ``write``, waiting for the disk in a thread; an error takes the directory offline."""
        version, state = self._collect(directory, high_watermarks)
        try:
            for name, offsets in state:
                await workers.in_thread(directory.write_offsets, name, offsets, version)
        except OSError as error:
            directory.fail(error)
        else:
            self._wrote(directory, version, is_whole=high_watermarks is not None)

    def write_recovery_points(self, directory: LogDirectory) -> None:
        """Write these alone."""
        self._version += 1
        directory.write_offsets(RECOVERY_POINTS, _recovery_points(directory), self._version)

    def _collect(
        self, directory: LogDirectory, high_watermarks: Mapping[TopicPartition, int] | None
    ) -> tuple[int, list[tuple[str, Offsets]]]:
        """What there is to be written now, by file, and the state's number."""
        self._version += 1
        logs = directory.logs
        directory.is_start_moved = False
        # Only what the segments do not say themselves, as Kafka has it.
        starts = {
            each: log.start_offset for each, log in logs.items() if log.start_offset > log.segments[0].base_offset
        }
        state = [(RECOVERY_POINTS, _recovery_points(directory)), (LOG_START_OFFSETS, starts)]
        if high_watermarks is not None:
            here = (each for each, log in logs.items() if each in high_watermarks and self._counts(log))
            state.append((HIGH_WATERMARKS, {each: high_watermarks[each] for each in here}))
        return self._version, state

    def _wrote(self, directory: LogDirectory, version: int, *, is_whole: bool) -> None:
        """Whoever left before that state was collected is named in no file any more."""
        if is_whole:
            left = self._left.get(directory.path, {})
            self._left[directory.path] = {each: last for each, last in left.items() if last >= version}


def _recovery_points(directory: LogDirectory) -> Offsets:
    return {topic_partition: log.recovery_point for topic_partition, log in directory.logs.items()}
