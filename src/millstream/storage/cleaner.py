"""When logs are compacted: the dirtiest first, one at a time, in a process of low priority.

The work itself is ``compaction.compact``, which only writes files beside the log. Here, on the loop, a run is
planned, its outcome put in place if the log is still as it was, and how far it came written down.
"""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor
from random import Random

from millstream.config import log as settings
from millstream.config.broker import BrokerConfig
from millstream.config.setting import DOUBLE_MAX, LONG_MAX
from millstream.model.clock import Clock
from millstream.model.ids import TopicPartition
from millstream.model.workers import Workers
from millstream.storage.checkpoint import CLEANER_OFFSETS, read_offsets
from millstream.storage.compaction_job import CHUNK_BYTES, CompactionJob, CompactionResult, ProducerEnd, compact
from millstream.storage.compaction_plan import Dirt, SegmentSpan, dirt_of, dirtiest
from millstream.storage.directory import LogDirectory
from millstream.storage.log import Log
from millstream.storage.manager import Logs
from millstream.storage.replay import aborted_of
from millstream.storage.segment import Segment
from millstream.storage.swap import discard_cleaned

_log = logging.getLogger(__name__)


class Cleaner:
    """Compacts the logs whose policy says so; one that cannot be is reported once and left alone, the others go on.

    ``stable_offset`` gives a partition's last stable offset, which is never above its high watermark.  From the first
    moment on the cleaner hears of every log that is new or was cut, so it is made when the logs have been opened.
    """

    def __init__(
        self,
        logs: Logs,
        workers: Workers,
        clock: Clock,
        random: Random,
        config: Callable[[], BrokerConfig],
        stable_offset: Callable[[TopicPartition], int],
    ) -> None:
        self._logs = logs
        self._workers = workers
        self._clock = clock
        self._random = random
        self._config = config
        self._stable_offset = stable_offset
        #: Where each log's compaction stopped, by directory: as the files have it, or will have it next.
        self._cleaned = {directory.path: _last_noted(directory) for directory in logs.directories}
        self._version = 0
        self._uncleanable: dict[TopicPartition, str] = {}
        logs.on_new = self.forget
        for directory in logs.directories:
            directory.on_cut = self.truncated

    @property
    def uncleanable(self) -> Mapping[TopicPartition, str]:
        """The partitions that are not compacted any more, and why."""
        return self._uncleanable

    async def clean(self) -> int:
        """Compact logs until none is worth it; how many runs that took. Call it every ``log.cleaner.backoff.ms``."""
        runs = 0
        put_off: set[TopicPartition] = set()
        while self._config().get(settings.LOG_CLEANER_ENABLE):
            found = self._dirtiest(put_off)
            if found is None:
                return runs
            runs += 1
            log, dirt = found
            try:
                if not await self._compact(log, dirt):
                    put_off.add(log.topic_partition)
            except (OSError, BrokenExecutor) as error:
                put_off.add(log.topic_partition)
                _log.warning("%s could not be compacted, which is tried again: %s", log.topic_partition, error)
            except Exception as error:
                if self._logs.get(log.topic_partition) is log and not log.is_offline:
                    self._uncleanable[log.topic_partition] = str(error)
                    _log.error("%s is not compacted any more until a restart: %s", log.topic_partition, error)
                put_off.add(log.topic_partition)
        return runs

    def truncated(self, log: Log) -> None:
        """A log was cut: what is written behind its end from now on has never been compacted."""
        cleaned = self._cleaned[log.directory.path]
        if self._logs.get(log.topic_partition) is log and cleaned.get(log.topic_partition, 0) > log.end_offset:
            cleaned[log.topic_partition] = log.end_offset
            self._write(log.directory)

    def forget(self, topic_partition: TopicPartition) -> None:
        """The partition is about to have a new log, of which nothing is true that was found out about another."""
        self._uncleanable.pop(topic_partition, None)
        for directory in self._logs.directories:
            if self._cleaned[directory.path].pop(topic_partition, None) is not None:
                self._write(directory)

    # Planning.

    def _dirtiest(self, put_off: set[TopicPartition]) -> tuple[Log, Dirt] | None:
        now_ms = self._clock.now_ms()
        candidates = {
            log.topic_partition: (log, self._dirt(log, now_ms))
            for log in self._logs
            if log.config.cleanup_compact
            and not log.is_offline
            and log.topic_partition not in self._uncleanable
            and log.topic_partition not in put_off
        }
        chosen = dirtiest((key, dirt, log.config) for key, (log, dirt) in candidates.items())
        return None if chosen is None else candidates[chosen]

    def _dirt(self, log: Log, now_ms: int) -> Dirt:
        config, active = log.config, log.segments.active
        if 0 <= active.first_timestamp < now_ms - config.max_compaction_lag_ms:
            log.roll(now_ms)  # Or what waits in it would wait until someone writes.
        return dirt_of(
            [_span(segment, log) for segment in log.segments],
            config,
            checkpoint=self._cleaned[log.directory.path].get(log.topic_partition),
            start_offset=log.start_offset,
            end_offset=log.end_offset,
            stable_offset=self._bound(log),
            now_ms=now_ms,
        )

    def _bound(self, log: Log) -> int:
        """Nothing that could still be lost may supersede a record: neither an unstable nor an unflushed one."""
        return min(self._stable_offset(log.topic_partition), log.recovery_point)

    def _job(self, log: Log, dirt: Dirt) -> CompactionJob:
        config, broker = log.config, self._config()
        for segment in log.segments.with_aborted:
            aborted_of(log, segment)  # The worker reads the files, and must find them whole.
        segments = [_span(segment, log) for segment in log.segments]
        bytes_per_second = broker.get(settings.LOG_CLEANER_IO_MAX_BYTES_PER_SECOND)
        return CompactionJob(
            files=log.directory.files,
            folder=log.folder,
            segments=tuple(each for each in segments if each.base_offset < dirt.first_uncleanable_offset),
            later_segments=tuple(each for each in segments if each.base_offset >= dirt.first_uncleanable_offset),
            first_dirty_offset=dirt.first_dirty_offset,
            end_offset=dirt.first_uncleanable_offset,
            now_ms=self._clock.now_ms(),
            delete_retention_ms=config.delete_retention_ms,
            segment_bytes=config.segment_bytes,
            index_bytes_max=config.segment_index_bytes,
            index_interval_bytes=config.index_interval_bytes,
            seed=self._random.getrandbits(64),
            producers={
                producer.producer_id: ProducerEnd(
                    producer.epoch, producer.batches[-1].last_offset if producer.batches else -1
                )
                for producer in log.producers
            },
            dedupe_bytes=broker.get(settings.LOG_CLEANER_DEDUPE_BUFFER_SIZE),
            chunk_bytes=max(CHUNK_BYTES, broker.get(settings.LOG_CLEANER_IO_BUFFER_SIZE)),
            bytes_per_second=None if bytes_per_second >= DOUBLE_MAX else bytes_per_second,
        )

    # Carrying out.

    async def _compact(self, log: Log, dirt: Dirt) -> bool:
        """One run; False when the log changed so much meanwhile that it was for nothing, or not all of it."""
        job = self._job(log, dirt)
        following = next(segment for segment in log.segments if segment.base_offset == job.end_offset)
        result = await self._workers.in_process(compact, job)
        if not self._put_in_place(log, following, job, result) or not await self._note(log, result.cleaned_to):
            return False
        _log.info(
            "%s is compacted up to offset %d: %d of %d records stay, %d bytes read, %d written",
            log.topic_partition,
            result.cleaned_to,
            result.records_kept,
            result.records_read,
            result.bytes_read,
            result.bytes_written,
        )
        if result.records_without_key:
            _log.warning("%s: %d records had no key and are gone", log.topic_partition, result.records_without_key)
        return True

    def _put_in_place(self, log: Log, following: Segment, job: CompactionJob, result: CompactionResult) -> bool:
        """Swap the cleaned segments in, if the log is still the one they were made of; whether all of them could be.

        While the worker was busy the log may have been removed, or cut: then ``following``, the segment behind the
        compacted ones, is no longer there, and records may be gone that superseded others. Or retention took
        segments from the front: a group that it took whole is no loss, and what comes after it is still good.
        """
        if self._logs.get(log.topic_partition) is not log or log.is_offline:
            return False  # The folder is gone with everything in it, or it is cleared up at the next start.
        is_whole = any(segment is following for segment in log.segments)
        bases = {segment.base_offset for segment in log.segments}
        for group in result.groups:
            is_there = [base in bases for base in group.replaced]
            is_whole = is_whole and (all(is_there) or not any(is_there))
            if is_whole and is_there[0]:
                log.replace_segments(group.base_offset, group.replaced)
            else:
                discard_cleaned(job.files, job.folder, group.base_offset)
        return is_whole

    # Where each log's compaction stopped.

    async def _note(self, log: Log, cleaned_to: int) -> bool:
        """Write down how far a run came; False where the log was cut or removed meanwhile, or the disk failed."""
        directory, cuts = log.directory, log.flusher.cuts
        try:
            # A checkpoint ahead of the segments it speaks of would have aborted records taken for committed ones.
            await self._workers.in_thread(directory.files.sync_folder, log.folder)
            if log.is_deleted or log.flusher.cuts != cuts:
                return False  # What stands there now, if anything does, was not compacted.
        except OSError as error:
            if not log.is_deleted:
                directory.fail(error)
            return False
        self._cleaned[directory.path][log.topic_partition] = cleaned_to
        try:
            await self._workers.in_thread(directory.write_offsets, *self._state(directory))
        except OSError as error:
            directory.fail(error)
        return directory.failure is None

    def _write(self, directory: LogDirectory) -> None:
        """Write down what has changed, here and now."""
        if directory.failure is None:
            try:
                directory.write_offsets(*self._state(directory))
            except OSError as error:
                directory.fail(error)

    def _state(self, directory: LogDirectory) -> tuple[str, dict[TopicPartition, int], int]:
        """What there is to be written; those that are gone are left out."""
        cleaned = self._cleaned[directory.path]
        for gone in cleaned.keys() - directory.logs.keys():
            del cleaned[gone]
        self._version += 1
        return CLEANER_OFFSETS, dict(cleaned), self._version


def _last_noted(directory: LogDirectory) -> dict[TopicPartition, int]:
    """Where compaction stopped, as written down last; at 0 for a log that ends before: a crash came upon its cut."""
    if directory.failure is not None:
        return {}
    try:
        noted = read_offsets(directory.files, f"{directory.path}/{CLEANER_OFFSETS}")
    except OSError as error:
        directory.fail(error)
        return {}
    return noted | {each: 0 for each, log in directory.logs.items() if noted.get(each, 0) > log.end_offset}


def _span(segment: Segment, log: Log) -> SegmentSpan:
    """What the plan sees; times, which must be read from the indexes, only where a lag is configured."""
    config = log.config
    if config.min_compaction_lag_ms <= 0 and config.max_compaction_lag_ms >= LONG_MAX:
        return SegmentSpan(segment.base_offset, segment.size, -1, -1)
    return SegmentSpan(segment.base_offset, segment.size, segment.max_timestamp, segment.first_timestamp)
