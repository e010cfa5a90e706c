"""When and how a log reaches the disk.

Two strengths: a *commit* makes the batches durable, which acknowledgements may wait for; a *full flush* also brings
indexes, epochs and a producer snapshot, and then moves the recovery point.  Both do their waiting in a thread.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from millstream.model.workers import Workers
from millstream.storage.files import File, Files
from millstream.storage.open_files import OpenFiles
from millstream.storage.producer_snapshot import encode_snapshot
from millstream.storage.segment import Segment

if TYPE_CHECKING:
    from millstream.storage.directory import LogDirectory
    from millstream.storage.log import Log

#: However the settings are, no more than this waits unflushed: it bounds what a start after a crash has to scan.
UNFLUSHED_BYTES_MAX = 1024 * 1024 * 1024
UNFLUSHED_BATCHES_MAX = 200_000
UNFLUSHED_MS_MAX = 5_000
#: From so many logs on, one wait for a whole volume is cheaper than several for each log.
LOGS_TOGETHER_LEAST = 32


class FlushPlan:
    """What to bring to the disk, decided on the loop; ``run`` may then be called in a thread."""

    __slots__ = (
        "_files",
        "_folders",
        "_small",
        "_snapshot",
        "batches",
        "generation",
        "names",
        "offset",
        "segments",
        "size",
    )

    def __init__(self, log: "Log", generation: int, names: int, segments: list[Segment], folders: list[str]) -> None:
        self._files: list[File] = []
        self._folders = folders
        self._small: list[str] = []
        self._snapshot: tuple[str, bytes] | None = None
        self.offset = log.end_offset
        self.generation = generation
        self.names = names
        self.segments = segments
        self.batches = 0
        self.size = 0

    def hold_files(self) -> None:
        """Open what ``run`` needs."""
        self._files = [segment.reader() for segment in self._written()]

    def _written(self) -> list[Segment]:
        return [segment for segment in self.segments if segment.size or segment.file]

    def fill(self, log: "Log") -> None:
        """Make it a full flush."""
        for segment in self.segments:
            segment.flush_indexes()
            for index in segment.indexes:
                if not index.is_synced:
                    index.is_synced = True
                    self._small.append(index.path)
                    if index is segment.aborted:  # Its name may be new, long after those of the others.
                        self._folders = self._folders or [log.folder]
        log.epochs.rewrite()  # What was found in batches after a crash is not looked for again.
        if not log.epochs.is_synced:
            log.epochs.is_synced = True
            self._small.append(log.epochs.path)
            self._folders = self._folders or [log.folder]
        if self.offset not in log.snapshots.offsets:
            self._folders = [path for path in self._folders if path != log.folder]  # ``replace`` syncs it.
            self._snapshot = (log.snapshots.path(self.offset), encode_snapshot(log.producers))
        elif self.offset in log.snapshots.unsynced:
            log.snapshots.unsynced.discard(self.offset)
            self._small.append(log.snapshots.path(self.offset))
        self.batches = log.unflushed_batches
        self.size = log.unflushed_bytes

    @property
    def has_snapshot(self) -> bool:
        return self._snapshot is not None

    def run(self, files: Files) -> None:
        """Return when it is all on disk."""
        for file in self._files:
            file.flush()
        for path in self._small:
            try:
                small = files.open(path, writable=True)
            except FileNotFoundError:  # Its segment was removed meanwhile.
                continue
            small.flush()
            small.close()
        if self._snapshot is not None:
            files.replace(*self._snapshot)
        for path in self._folders:
            files.sync_folder(path)

    def write(self, open_files: OpenFiles) -> None:
        """Write what is not written yet, and wait for nothing."""
        if self._snapshot is not None:
            open_files.replace(*self._snapshot)

    def flush_segments(self) -> None:
        """Flush the batches alone, one file open at a time."""
        for segment in self._written():
            segment.reader().flush()


def flush_together(directory: "LogDirectory", logs: "Sequence[Log]") -> None:
    """Flush logs of one directory fully, here and now, with one wait for all; nothing is appended meanwhile."""
    if len(logs) < LOGS_TOGETHER_LEAST:
        for log in logs:
            log.flush()
        return
    try:
        plans = [(log.flusher, log.flusher.plan(is_full=True)) for log in logs]
        for _, plan in plans:
            plan.write(directory.open_files)
        directory.files.sync_volume(directory.path)
        for flusher, plan in plans:
            plan.flush_segments()  # Little is left to do; but of a write that failed before, only its file tells.
            flusher.finish(plan, is_full=True)
    except OSError as error:
        raise directory.fail(error) from error


class Flusher:
    """How far one log has reached the disk, and who is waiting for it to get further."""

    __slots__ = (
        "_closed",
        "_generation",
        "_is_new",
        "_log",
        "_names",
        "_names_synced",
        "_running",
        "durable_offset",
        "is_filling",
    )

    def __init__(self, log: "Log") -> None:
        self._log = log
        #: Every batch before this offset is on disk.
        self.durable_offset = 0
        #: Segments closed since the last full flush, and whether their batches are on disk, if not their indexes.
        self._closed: dict[Segment, bool] = {}
        #: Counts cuts: a plan made before one says nothing about the log after it.
        self._generation = 0
        #: Counts changes of file names, and how many of them the disk has. Of names that were found here nobody knows:
        #: a log that was made and never written to is closed without a flush.
        self._names, self._names_synced = 1, 0
        #: Whether the log directory may not know the partition's folder yet.
        self._is_new = True
        self._running: asyncio.Future[None] | None = None
        #: Whether a full flush is on its way.
        self.is_filling = False

    @property
    def cuts(self) -> int:
        """How often the log was cut."""
        return self._generation

    def note_segment(self, closed: Segment | None) -> None:
        """A segment was begun, and the one before it closed."""
        self._names += 1
        if closed is not None:
            self._closed[closed] = False

    def note_cut(self, end_offset: int) -> None:
        """The log was cut, and ends at ``end_offset`` now."""
        self._generation += 1
        self._names += 1
        self.durable_offset = min(self.durable_offset, end_offset)

    def plan(self, *, is_full: bool) -> FlushPlan:
        log = self._log
        folders = [] if self._names == self._names_synced else [log.folder]
        if folders and self._is_new:
            folders.append(log.directory.path)
        active = log.segments.active
        here = set(log.segments) - {active}
        self._closed = {segment: is_durable for segment, is_durable in self._closed.items() if segment in here}
        segments = [*(segment for segment, is_durable in self._closed.items() if is_full or not is_durable), active]
        plan = FlushPlan(log, self._generation, self._names, segments, folders)
        if is_full:
            plan.fill(log)
        return plan

    def finish(self, plan: FlushPlan, *, is_full: bool) -> None:
        """What ``plan`` asked for is on disk."""
        log = self._log
        if plan.generation != self._generation:
            if plan.has_snapshot:  # It tells of batches that were cut meanwhile.
                log.snapshots.note(plan.offset)
                log.snapshots.remove(plan.offset)
            return
        self.durable_offset = max(self.durable_offset, plan.offset)
        self._names_synced = max(self._names_synced, plan.names)
        self._is_new = False
        for segment in plan.segments:
            if segment in self._closed:
                segment.release()
                self._closed[segment] = True
                if is_full:
                    del self._closed[segment]
        if is_full:
            log.recovery_point = max(log.recovery_point, plan.offset)
            log.unflushed_batches -= plan.batches
            log.unflushed_bytes -= plan.size
            log.unflushed_since_ms = log.directory.clock.now_ms()
            log.snapshots.note(plan.offset)
            log.snapshots.remove_strays(log.segments.bases)

    def is_due(self, now_ms: int) -> bool:
        """Whether a full flush should not wait any longer."""
        log = self._log
        if self.is_filling or not log.unflushed_batches:
            return False
        return (
            bool(self._closed)
            or log.unflushed_bytes >= UNFLUSHED_BYTES_MAX
            or log.unflushed_batches >= UNFLUSHED_BATCHES_MAX
            or now_ms - log.unflushed_since_ms >= min(log.config.flush_ms, UNFLUSHED_MS_MAX)
        )

    def flush(self) -> None:
        """Flush fully, here and now."""
        try:
            plan = self.plan(is_full=True)
            plan.hold_files()
            plan.run(self._log.directory.files)
            self.finish(plan, is_full=True)
        except OSError as error:
            raise self._log.directory.fail(error) from error

    async def fill(self, workers: Workers) -> None:
        """Flush fully, waiting in a thread; nothing happens when that is on its way already."""
        if self.is_filling or self._log.is_offline:
            return
        self.is_filling = True
        try:
            await self._run(workers, is_full=True)
        finally:
            self.is_filling = False

    async def commit(self, workers: Workers) -> None:
        """Return when every batch appended before the call is on disk.

        Whoever comes while a flush runs waits for the next one, which then serves all who came.
        """
        log, wanted, generation = self._log, self._log.end_offset, self._generation
        while self.durable_offset < wanted and generation == self._generation and not log.is_deleted:
            if log.is_offline:  # A disk that failed once is not asked again: it may claim what it does not have.
                raise log.directory.refusal()
            if self._running is not None:
                await asyncio.shield(self._running)
                continue
            running = self._running = asyncio.get_running_loop().create_future()
            try:
                await self._run(workers, is_full=False)
            finally:
                self._running = None
                if not running.done():
                    running.set_result(None)

    async def _run(self, workers: Workers, *, is_full: bool) -> None:
        log = self._log
        try:
            plan = self.plan(is_full=is_full)
            plan.hold_files()
            try:
                await workers.in_thread(plan.run, log.directory.files)
            except OSError as error:
                if not OpenFiles.ran_out(error):
                    raise
                log.directory.open_files.give_back()
                await workers.in_thread(plan.run, log.directory.files)
            if not log.is_deleted:
                self.finish(plan, is_full=is_full)
        except OSError as error:
            if log.is_deleted:
                return
            raise log.directory.fail(error) from error
