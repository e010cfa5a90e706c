"""Every log of a broker, over its log directories."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random

from millstream.config.topic import TopicConfig
from millstream.model.clock import Clock
from millstream.model.errors import ProtocolError
from millstream.model.ids import ZERO_UUID, TopicPartition, Uuid
from millstream.model.workers import Workers
from millstream.storage import trimming
from millstream.storage.checkpoint import HIGH_WATERMARKS, read_offsets
from millstream.storage.directory import DirectoryError, LogDirectory
from millstream.storage.files import Files
from millstream.storage.flush import flush_together
from millstream.storage.folders import partition_of, topic_id_in
from millstream.storage.ledger import Ledger, Noted, Offsets
from millstream.storage.log import Log
from millstream.storage.meta import PARTITION_METADATA, MetaProperties, encode_partition_metadata
from millstream.storage.moving import FUTURE_SUFFIX, Copy, is_marked, mark_moved, mark_stayed
from millstream.storage.recovery import LastKnown, load_log

PRODUCER_ID_EXPIRATION_MS = 24 * 60 * 60 * 1000
#: A pass of the background flush brings at most this many logs to the disk, the fullest first.
FLUSHED_LOGS_MAX = 64

_log = logging.getLogger(__name__)


class Logs:
    """Finds, makes and removes logs; a failed directory takes only its own with it."""

    def __init__(
        self,
        files: Files,
        clock: Clock,
        directories: Sequence[str],
        config_for: Callable[[str], TopicConfig],
        random: Random,
        producer_id_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
    ) -> None:
        self.directories = [LogDirectory(path.rstrip("/"), files, clock, random) for path in directories]
        self._together = ",".join(sorted(directory.path for directory in self.directories))
        self._config_for = config_for
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._logs: dict[TopicPartition, Log] = {}
        #: While directories are opened: logs that were being moved elsewhere.
        self._marked: list[Log] = []
        self._ledger = Ledger(lambda log: self._logs.get(log.topic_partition) is log)
        #: Directories that were nobody's, until it is known whether this broker may have them.
        self._taken: list[LogDirectory] = []
        #: The broker's life, counted from its first; noted in every directory.
        self.life = 0
        #: Whether every directory holds all that was ever written to it; known once they are open.
        self.has_kept = False
        #: Told once of each directory that goes offline, in the midst of whatever found it out: note it, act later.
        self.on_failure: Callable[[LogDirectory], None] = _ignore
        #: Told of each partition whose log is about to be new in a directory.
        self.on_new: Callable[[TopicPartition], None] = _ignore
        for directory in self.directories:
            directory.on_rollback = self._ledger.write_recovery_points
            directory.on_failure = self._directory_failed

    # Opening and closing.

    def open(self, last_life: int | None = None) -> None:
        """Lock every directory and load its partitions; DirectoryError when none, or another broker's, is left.

        ``last_life`` is the broker's last before this one, as far as is known.
        """
        self._lock()
        self.life = (last_life or 0) + 1
        is_locked, is_lost = len(self._online()) == len(self.directories), False
        closed: dict[LogDirectory, Offsets] = {}
        for directory in self._online():
            try:
                is_lost |= not directory.has_kept(self._together, last_life)
                is_clean, noted = directory.was_closed(), self._ledger.read(directory)
                self._load(directory, noted, is_clean=is_clean)
            except OSError as error:
                directory.fail(error)
            except ProtocolError:
                assert directory.failure is not None, "a log is refused only with its directory"
            else:
                if is_clean:
                    closed[directory] = noted.recovery_points
        self._look_for_all(closed)
        self._mark_open()
        self._settle_moves()
        is_lost |= any(each.has_lost for each in self.directories)
        # A disk that is too full to be opened has lost nothing: others lead meanwhile, and count on it when there is
        # room again. Where it could not even be looked at, that is not known now, and may be then.
        self.has_kept = is_locked and not is_lost
        self._note_kept(is_lost=is_lost)
        if all(directory.failure is not None for directory in self.directories):
            reasons = "; ".join(f"{directory.path}: {directory.failure}" for directory in self.directories)
            raise DirectoryError(f"no log directory can be used: {reasons}")

    def _lock(self) -> None:
        for directory in self.directories:
            try:
                directory.lock()
            except OSError as error:
                directory.fail(error)
            except DirectoryError:
                for locked in self.directories:
                    locked.unlock()
                raise

    def identify(self, broker_id: int, cluster_id: str, *, is_shared: bool = False) -> None:
        """Write down whose the directories are; DirectoryError when one is another broker's or cluster's."""
        for directory in self._online():
            meta = directory.meta()
            if meta is None:
                directory_id = directory.random.randbytes(16)
                directory.write_meta(MetaProperties(broker_id, cluster_id, directory_id, is_shared))
                self._taken.append(directory)
            elif (meta.broker_id, meta.cluster_id) != (broker_id, cluster_id):
                raise DirectoryError(
                    f"{directory.path} belongs to broker {meta.broker_id} of cluster {meta.cluster_id}, "
                    f"not to broker {broker_id} of cluster {cluster_id}: name another directory"
                )
            elif meta.is_shared != is_shared:
                directory.write_meta(meta._replace(is_shared=is_shared))

    def keep(self) -> None:
        """The cluster knows the broker: directories that were nobody's before are its own from now on."""
        self._taken.clear()

    def meta(self) -> list[MetaProperties]:
        """What the directories' ``meta.properties`` say, where they are written."""
        found = [directory.meta() for directory in self._online()]
        return [meta for meta in found if meta is not None]

    def close(self) -> None:
        """Bring everything to the disk and mark the directories as closed."""
        for directory in self._online():
            if not directory.is_open:
                continue  # Another broker's, perhaps; or not all of it was loaded.
            try:
                logs = list(directory.logs.values())
                flush_together(directory, [log for log in logs if log.seal()])
                for log in logs:
                    log.release()
                self._ledger.write(directory)
                directory.mark_closed()
            except (OSError, ProtocolError) as error:
                _log.error("%s could not be closed cleanly: %s", directory.path, error)
        for directory in self._taken:
            directory.remove_meta()
        for directory in self.directories:
            directory.unlock()

    def _load(self, directory: LogDirectory, noted: Noted, *, is_clean: bool) -> None:
        files, path = directory.files, directory.path
        for name in files.list(path):
            if name.endswith((trimming.DELETE_SUFFIX, FUTURE_SUFFIX)):
                directory.doom(f"{path}/{name}", 0)
                continue
            topic_partition = partition_of(name)
            if topic_partition is None:
                continue
            point, start = noted.recovery_points.get(topic_partition, 0), noted.starts.get(topic_partition, 0)
            try:
                topic_id, config = topic_id_in(files, f"{path}/{name}"), self._config_for(topic_partition.topic)
                log = load_log(directory, topic_partition, topic_id, config, LastKnown(point, start, is_clean))
            except NotADirectoryError:
                continue
            if is_marked(log):
                self._marked.append(log)
            else:
                self._add(log)

    def _look_for_all(self, closed: Mapping[LogDirectory, Offsets]) -> None:
        """Find out logs that are gone since their directories were ``closed``, with everything up to these offsets.

        One that was taken to another of the directories is not missed, if all of it is there.
        """
        ends: dict[TopicPartition, int] = {}
        for log in [*self._marked, *(log for directory in closed for log in directory.logs.values())]:
            if log.directory in closed:
                ends[log.topic_partition] = max(log.end_offset, ends.get(log.topic_partition, 0))
        for directory, noted in closed.items():
            missed = {each: end for each, end in noted.items() if ends.get(each, 0) < end}
            for each, end in missed.items():
                _log.error("%s/%s had all before %d at a clean stop, and has not now", directory.path, each, end)
            try:
                if missed:
                    directory.lose()
            except OSError as error:
                directory.fail(error)

    def _mark_open(self) -> None:
        """After all are looked through, for the marks of a clean stop are what shows that something is missing."""
        for directory in self._online():
            try:
                directory.mark_open()
            except OSError as error:
                directory.fail(error)

    def _settle_moves(self) -> None:
        """Of a log that was being moved when the last broker ended, let the copy count, as the mover would have."""
        marked, self._marked = self._marked, []
        for log in marked:
            copy = self._logs.get(log.topic_partition)
            try:
                if copy is not None and copy.topic_id == log.topic_id and not copy.is_offline:
                    _log.warning("%s was moved to %s: what is left of it is removed", log.folder, copy.folder)
                    log.delete()
                elif len(self._online()) == len(self.directories):
                    mark_stayed(log)
                    self._add(log)
                else:
                    _log.error("%s was being moved, perhaps to a directory that is offline: it is not used", log.folder)
            except ProtocolError:
                continue  # Its directory is offline now, which is known and was reported.

    def _add(self, log: Log) -> None:
        """Take the log in.  Where another directory has the partition too, the longer one counts until ``get`` is told
        the topic's id; both stay known to their directories."""
        log.directory.logs[log.topic_partition] = log
        twin = self._logs.get(log.topic_partition)
        if twin is not None:
            kept, ignored = (log, twin) if log.end_offset > twin.end_offset else (twin, log)
            _log.error("%s is ignored: %s holds the same partition and more of it", ignored.folder, kept.folder)
            log = kept
        self._logs[log.topic_partition] = log

    def _online(self) -> list[LogDirectory]:
        return [directory for directory in self.directories if directory.failure is None]

    def _directory_failed(self, directory: LogDirectory) -> None:
        if directory.has_lost:
            self.has_kept = False
            self._note_kept(is_lost=True)
        self.on_failure(directory)

    def losses_are_known(self) -> None:
        """The cluster counts no more on what was lost, if anything was: from here on all is kept."""
        if all(directory.failure is None for directory in self.directories):
            self._note_kept(is_lost=False)

    def _note_kept(self, *, is_lost: bool) -> None:
        for directory in self.directories:
            try:
                directory.note_kept(self._together, self.life, is_lost=is_lost)
            except OSError as error:
                if directory.failure is None:
                    directory.fail(error)

    # Finding, making, removing.

    def __len__(self) -> int:
        return len(self._logs)

    def __iter__(self) -> Iterator[Log]:
        return iter(self._logs.values())

    def get(self, topic_partition: TopicPartition, topic_id: Uuid = ZERO_UUID) -> Log | None:
        """The partition's log; it may be offline.

        Told the topic's id, never the log of a topic that had the name before: such a one is set aside.
        """
        if topic_id != ZERO_UUID:
            self._settle(topic_partition, topic_id)
        return self._logs.get(topic_partition)

    def _settle(self, topic_partition: TopicPartition, topic_id: Uuid) -> None:
        """Of all directories' logs of the partition let the topic's own count, the longest; or one without any id."""
        held = [directory.logs[topic_partition] for directory in self.directories if topic_partition in directory.logs]
        own = [log for log in held if log.topic_id == topic_id]
        nameless = [log for log in held if log.topic_id == ZERO_UUID]
        for log in held:
            if log.topic_id not in (topic_id, ZERO_UUID):
                self._set_aside(log)
        self._logs.pop(topic_partition, None)
        if own or nameless:
            log = max(own or nameless, key=lambda each: each.end_offset)
            self._logs[topic_partition] = log
            if not own:
                self.set_topic_id(log, topic_id)

    def set_aside(self, topic_partition: TopicPartition) -> None:
        """Keep the partition's log out of the way, for it has no part in anything here any more."""
        self._logs.pop(topic_partition, None)
        for directory in self._online():
            if topic_partition in directory.logs:
                self._set_aside(directory.logs[topic_partition])

    def _set_aside(self, log: Log) -> None:
        del log.directory.logs[log.topic_partition]
        self._ledger.left(log)
        if log.is_offline:
            return  # It cannot be moved; whoever opens the directory next finds it again.
        try:
            path = trimming.set_aside(log)
            _log.warning("%s is of nothing that is here any more: it is kept as %s", log.folder, path)
        except ProtocolError:
            return  # Its directory is offline now, which is known and was reported.

    def create(
        self, topic_partition: TopicPartition, topic_id: Uuid, config: TopicConfig, *, is_new: bool = True
    ) -> Log:
        """A new log in the directory with the fewest partitions.

        One that is not new may lie in a directory that is offline, and is not made a second time.
        """
        assert topic_partition not in self._logs, f"{topic_partition} has a log"
        online = self._online()
        if not online or (not is_new and len(online) < len(self.directories)):
            offline = next(directory for directory in self.directories if directory.failure is not None)
            raise offline.refusal()
        directory = min(online, key=lambda each: len(each.logs))
        self._begin_anew(directory, topic_partition)
        log = self._left_behind(directory, topic_partition, topic_id, config)
        if log is None:
            log = Log(directory, topic_partition, config, topic_id)
            log.create()
        self.set_topic_id(log, topic_id)
        self._add(log)
        return log

    def _begin_anew(self, directory: LogDirectory, topic_partition: TopicPartition) -> None:
        """Nothing that was noted of the partition may be taken for the truth about a log that is new here."""
        try:
            self._ledger.forget(directory, topic_partition)
        except OSError as error:
            raise directory.fail(error) from error
        self.on_new(topic_partition)
        if directory.failure is not None:
            raise directory.refusal()

    def _left_behind(
        self, directory: LogDirectory, topic_partition: TopicPartition, topic_id: Uuid, config: TopicConfig
    ) -> Log | None:
        """The log in a folder that came since the directory was opened, for it may hold records."""
        folder = f"{directory.path}/{topic_partition}"
        try:
            if not directory.files.exists(folder):
                return None
            found = topic_id_in(directory.files, folder)
            log = load_log(directory, topic_partition, found, config, LastKnown(0, 0, is_clean=False))
        except OSError as error:
            raise directory.fail(error) from error
        if ZERO_UUID in (found, topic_id) or found == topic_id:
            return log
        directory.logs[topic_partition] = log
        self._set_aside(log)
        return None

    def set_topic_id(self, log: Log, topic_id: Uuid) -> None:
        """Write the topic's id down in the partition's folder."""
        log.topic_id = topic_id
        try:
            path = f"{log.folder}/{PARTITION_METADATA}"
            log.directory.open_files.replace(path, encode_partition_metadata(topic_id))
        except OSError as error:
            raise log.directory.fail(error) from error

    def replace(self, copy: Copy) -> Log:
        """Let a finished copy take its origin's place; the origin's files go in time."""
        origin, made = copy.origin, copy.log
        directory, topic_partition = made.directory, made.topic_partition
        self._begin_anew(directory, topic_partition)
        self.set_topic_id(made, origin.topic_id)
        mark_moved(origin)
        try:
            directory.open_files.forget_folder(made.folder)
            directory.files.rename(made.folder, f"{directory.path}/{topic_partition}")
            directory.files.sync_folder(directory.path)
            known = LastKnown(made.end_offset, made.start_offset, is_clean=True)
            log = load_log(directory, topic_partition, origin.topic_id, origin.config, known)
        except OSError as error:
            refusal = directory.fail(error)
            mark_stayed(origin)
            raise refusal from error
        log.producers = origin.producers  # The same, and they know more than a snapshot tells.
        del origin.directory.logs[topic_partition], self._logs[topic_partition]
        self._ledger.left(origin)
        self._add(log)
        origin.delete()
        return log

    def delete(self, topic_partition: TopicPartition) -> None:
        """Remove the partition's log, a twin in another directory included; the files go in time.

        One that is offline cannot be removed.
        """
        log = self._logs.get(topic_partition)
        if log is None:
            return
        if log.is_offline:
            raise log.directory.refusal()
        del self._logs[topic_partition]
        for directory in self._online():
            twin = directory.logs.pop(topic_partition, None)
            if twin is not None:
                self._ledger.left(twin)
                twin.delete()

    # Work in the background, as often as the broker likes.

    async def flush_due(self, now_ms: int, patient: Workers, workers: Workers) -> int:
        """Bring logs to the disk that have waited long enough, and note how far; how many there were.

        ``patient`` may give way to others while they flush; to note it holds a lock that the loop may want.
        """
        due = [log for log in self._logs.values() if log.unflushed_batches and log.flusher.is_due(now_ms)]
        due.sort(key=lambda log: log.unflushed_batches, reverse=True)
        del due[FLUSHED_LOGS_MAX:]
        for log in due:
            try:
                await log.flusher.fill(patient)
            except ProtocolError:
                continue  # Its directory is offline now, which is known and was reported.
        moved = {id(log.directory): log.directory for log in due}
        for directory in self._online():
            if id(directory) in moved or directory.is_start_moved:
                await self._ledger.write_async(directory, workers)
        return len(due)

    def retain(self, now_ms: int, upper: Callable[[TopicPartition], int]) -> int:
        """Remove what retention no longer keeps, below each partition's ``upper`` (its high watermark); bytes freed."""
        freed = 0
        for log in list(self._logs.values()):
            if not log.is_offline:
                log.producers.expire(now_ms, self._producer_id_expiration_ms)
                try:
                    freed += log.enforce_retention(now_ms, upper(log.topic_partition))
                except ProtocolError:
                    continue
        return freed

    async def delete_pending(self, now_ms: int, workers: Workers) -> int:
        """Remove files and folders whose delay is over; how many."""
        count = 0
        for directory in self._online():
            due = directory.due(now_ms)
            if due:
                try:
                    await workers.in_thread(_remove, directory.files, due)
                except OSError as error:
                    directory.fail(error)
                count += len(due)
        return count

    # Checkpoints.

    def checkpoint(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write recovery points, log starts and high watermarks down, here and now."""
        for directory in self._online():
            try:
                self._ledger.write(directory, high_watermarks)
            except OSError as error:
                directory.fail(error)

    async def checkpoint_async(self, high_watermarks: Mapping[TopicPartition, int], workers: Workers) -> None:
        """As ``checkpoint``, waiting for the disk in a thread."""
        for directory in self._online():
            await self._ledger.write_async(directory, workers, high_watermarks)

    def read_high_watermarks(self) -> dict[TopicPartition, int]:
        """The high watermarks that were written down last."""
        found: dict[TopicPartition, int] = {}
        for directory in self._online():
            found |= read_offsets(directory.files, f"{directory.path}/{HIGH_WATERMARKS}")
        return found


def _ignore(_: object) -> None:
    """Nobody wants to know."""


def _remove(files: Files, paths: Sequence[str]) -> None:
    for path in paths:
        if path.endswith(trimming.DELETE_SUFFIX):
            files.remove_tree(path)
        else:
            files.remove(path)
