"""Opening a partition's folder, whatever state the last process or machine left it in.

After a clean stop only the last segment's tail is looked at.  After any other, everything from the recovery point on
is checked batch by batch; the first one that does not hold, and all after it, is cut.
"""

import logging
from collections import deque
from typing import NamedTuple

from fastcrc.crc32 import iscsi as crc32c

from millstream.config.topic import TopicConfig
from millstream.model.batch import (
    ATTRIBUTES_AT,
    CONTROL,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    NO_LEADER_EPOCH,
    TRANSACTIONAL,
    BatchHeader,
    header_at,
)
from millstream.model.ids import TopicPartition, Uuid
from millstream.storage.aborted_index import ABORTED_INDEX_SUFFIX
from millstream.storage.checkpoint import DamagedCheckpoint
from millstream.storage.directory import LogDirectory
from millstream.storage.log import Log
from millstream.storage.producer_snapshot import SUFFIX as SNAPSHOT_SUFFIX
from millstream.storage.producer_state import BATCHES_REMEMBERED
from millstream.storage.replay import aborted_of, reload_producers
from millstream.storage.segment import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    RELATIVE_OFFSET_MAX,
    SEGMENT_SUFFIXES,
    Segment,
)
from millstream.storage.swap import CLEANED, SWAP, finish_swaps
from millstream.storage.walk import STRIDE_BYTES, DamagedBatch, headers

_TEMPORARY = (DELETED_SUFFIX, CLEANED, SWAP, ".tmp")
_OFFSET_DIGITS = 20
_IN_TRANSACTION = TRANSACTIONAL | CONTROL
_LENGTH_LEAST = HEADER_BYTES - LOG_OVERHEAD
_log = logging.getLogger(__name__)


class LastKnown(NamedTuple):
    """What the checkpoint files say of a partition."""

    recovery_point: int
    start_offset: int
    is_clean: bool


def load_log(
    directory: LogDirectory, topic_partition: TopicPartition, topic_id: Uuid, config: TopicConfig, known: LastKnown
) -> Log:
    """The log in the partition's folder: every whole valid batch, and indexes, epochs and producers that agree."""
    log = Log(directory, topic_partition, config, topic_id)
    segments = _find_segments(log)
    if not segments:
        log.start_offset = known.start_offset
        log.create()
        log.epochs.clear()
        _begin(log, known.start_offset)
        _compare(log, known)
        return log
    log.adopt(segments, max(segments[0].base_offset, known.start_offset), segments[-1].base_offset)
    _load_epochs(log)
    is_clean = known.is_clean and _load_clean(log)
    if not is_clean:
        _Recovery(log, known.recovery_point).run()
    _compare(log, known)
    if log.end_offset < log.start_offset:
        _log.warning("%s ends at %d, before its start %d", log.folder, log.end_offset, log.start_offset)
        log.restart_at(log.start_offset)
        return log
    log.epochs.truncate_from(log.end_offset)
    log.epochs.truncate_before(log.start_offset)
    log.producers.end_offset = log.end_offset
    if is_clean:
        log.snapshots.remove_after(log.end_offset)
        reload_producers(log, log.end_offset)
        aborted_of(log, log.segments.active)
        log.recovery_point = log.flusher.durable_offset = log.end_offset
    return log


def _compare(log: Log, known: LastKnown) -> None:
    """Find out a log that has lost its end since: whoever stopped cleanly had flushed all up to there.

    It is found out again after a cut, as long as the directory has its mark of the clean stop.
    """
    if known.is_clean and log.end_offset < known.recovery_point:
        log.directory.lose()


def _begin(log: Log, offset: int) -> None:
    log.end_offset = log.producers.end_offset = log.recovery_point = log.flusher.durable_offset = offset


def _find_segments(log: Log) -> list[Segment]:
    """The segments in the folder, after half-done work of a former process was completed or undone."""
    files, folder = log.directory.files, log.folder
    names = files.list(folder)
    if any(name.endswith(_TEMPORARY) for name in names):
        finish_swaps(files, folder)
        for name in files.list(folder):
            if name.endswith(_TEMPORARY):
                files.remove(f"{folder}/{name}")
        names = files.list(folder)
    bases = [int(name[:_OFFSET_DIGITS]) for name in names if _is_numbered(name, LOG_SUFFIX)]
    stems = {f"{base:020d}" for base in bases}
    for name in names:
        if any(_is_numbered(name, suffix) for suffix in SEGMENT_SUFFIXES) and name[:_OFFSET_DIGITS] not in stems:
            _log.warning("%s/%s belongs to no segment and is removed", folder, name)
            files.remove(f"{folder}/{name}")
    log.snapshots.offsets = [int(name[:_OFFSET_DIGITS]) for name in names if _is_numbered(name, SNAPSHOT_SUFFIX)]
    now_ms = log.directory.clock.now_ms()
    segments, present = [], set(names)
    for base in bases:
        size = files.size(f"{folder}/{base:020d}{LOG_SUFFIX}")
        segment = Segment(log.directory.open_files, folder, base, size, now_ms)
        if f"{base:020d}{ABORTED_INDEX_SUFFIX}" in present:
            segment.expect_aborted()
        segments.append(segment)
    return segments


def _is_numbered(name: str, suffix: str) -> bool:
    return len(name) == _OFFSET_DIGITS + len(suffix) and name.endswith(suffix) and name[:_OFFSET_DIGITS].isdigit()


def _load_epochs(log: Log) -> None:
    try:
        log.epochs.load()
        if len(log.epochs) or not log.size_bytes:
            return
        _log.warning("%s is empty and is made anew", log.epochs.path)
    except FileNotFoundError:
        if not log.size_bytes:
            return
        _log.warning("%s is missing and is made anew", log.epochs.path)
    except DamagedCheckpoint as damage:
        _log.warning("%s is damaged and is made anew: %s", log.epochs.path, damage)
    for at, segment in enumerate(log.segments):
        if segment.size < HEADER_BYTES:
            continue
        first = header_at(segment.reader().read(0, HEADER_BYTES))
        following = log.segments[at + 1] if at + 1 < len(log.segments) else None
        log.epochs.assign(first.leader_epoch, first.base_offset)
        if following is not None and _first_epoch(following) == first.leader_epoch:
            continue  # Epochs only grow, so the whole segment is of this one.
        try:
            for _, header in headers(segment.reader(), 0, segment.size, STRIDE_BYTES):
                log.epochs.assign(header.leader_epoch, header.base_offset)
        except DamagedBatch:
            return  # The tail is looked at next.


def _first_epoch(segment: Segment) -> int | None:
    if segment.size < HEADER_BYTES:
        return None
    return header_at(segment.reader().read(0, HEADER_BYTES)).leader_epoch


def _load_clean(log: Log) -> bool:
    """Look at the last segment's tail; False when it is not as a clean stop leaves it."""
    try:
        log.end_offset = log.segments.active.load()
    except DamagedBatch as damage:
        _log.warning("%s: %s, though the broker had stopped cleanly", log.segments.active.path, damage)
        return False
    return True


class _Recovery:
    """One pass over what may not have reached the disk."""

    def __init__(self, log: Log, recovery_point: int) -> None:
        self._log = log
        self._recovery_point = recovery_point
        self._next_offset = log.segments.since(recovery_point)[0].base_offset
        self._batches = 0
        self._bytes = 0
        self._previous_epoch = NO_LEADER_EPOCH
        self._epoch_start = 0
        #: Each producer's last batches outside of transactions, not taken in yet: those before them do not matter.
        self._latest: dict[int, deque[tuple[int, ...]]] = {}

    def run(self) -> None:
        log = self._log
        pending = log.segments.since(self._recovery_point)
        pending[0].trust_below(self._recovery_point)
        log.snapshots.remove_after(max(self._recovery_point, log.start_offset))
        reload_producers(log, self._recovery_point)
        while pending:
            segment = pending.pop(0)
            if segment.base_offset != self._next_offset and not self._may_leap(segment):
                _log.warning(
                    "%s does not follow on offset %d: it and %d segments after it are removed",
                    segment.path,
                    self._next_offset,
                    len(pending),
                )
                log.directory.lose()
                self._drop([segment, *pending])
                break
            self._next_offset = segment.base_offset
            good_bytes = self._scan(segment)
            self._log.flusher.note_segment(segment)
            if good_bytes < segment.size:
                _log.warning(
                    "%s: %d bytes after offset %d are torn or damaged and are cut",
                    segment.path,
                    segment.size - good_bytes,
                    self._next_offset,
                )
                if pending or not _is_torn(segment, good_bytes):
                    log.directory.lose()
                self._cut(segment, good_bytes)
                if pending:
                    _log.warning("%s: %d segments after the damage are removed", log.folder, len(pending))
                self._drop(pending)
                break
        end_offset = max(self._next_offset, log.segments.active.base_offset)
        log.adopt(list(log.segments), log.start_offset, end_offset)
        log.recovery_point = log.flusher.durable_offset = min(self._recovery_point, log.end_offset)
        log.unflushed_batches, log.unflushed_bytes = self._batches, self._bytes
        log.unflushed_since_ms = log.directory.clock.now_ms()

    def _may_leap(self, segment: Segment) -> bool:
        """Whether offsets may be missing before the segment: it is the first, or they lie too far apart for one."""
        return segment.base_offset - self._next_offset > RELATIVE_OFFSET_MAX

    def _drop(self, segments: list[Segment]) -> None:
        """Remove segments for good: were they to come back after another crash, they would be taken for new."""
        if segments:
            self._log.segments.drop(segments, 0)
        self._log.directory.files.sync_folder(self._log.folder)

    def _cut(self, segment: Segment, size: int) -> None:
        writer = segment.writer()
        writer.truncate(size)
        writer.flush()
        segment.size = size

    def _scan(self, segment: Segment) -> int:
        """Check the segment's batches, index them and take in their producers; how many of its bytes are good."""
        position = segment.trust_below(self._recovery_point)
        trusted = len(segment.offsets)
        window_bytes = STRIDE_BYTES
        while position < segment.size and window_bytes:
            window = segment.reader().read(position, min(window_bytes, segment.size - position))
            good_bytes = self._scan_window(segment, position, window)
            position += good_bytes
            window_bytes = STRIDE_BYTES if good_bytes else self._longer(window, segment.size - position)
        for producer_id in list(self._latest):
            self._take_in_latest(producer_id)
        if segment.offsets.rank(self._recovery_point - segment.base_offset) > trusted:
            segment.sync_indexes()  # They were lost below the recovery point, where nobody looks for them again.
        segment.flush_indexes()
        return position

    def _scan_window(self, segment: Segment, position: int, window: bytes) -> int:
        """As ``_scan``, for the whole batches from the window's start on.  Every step here costs a million times."""
        interval, checked_from = self._log.config.index_interval_bytes, self._recovery_point
        unpack, next_offset = HEADER.unpack_from, self._next_offset
        max_timestamp, unindexed_bytes = segment.max_timestamp, segment.unindexed_bytes
        latest, previous_epoch = self._latest, self._previous_epoch
        view, at, end, batches, first = memoryview(window), 0, len(window), 0, 0
        while at + HEADER_BYTES <= end:
            fields = unpack(window, at)
            base_offset, length, epoch, magic, crc, attributes, delta, _, timestamp, producer_id, _, _, _ = fields
            after = at + length + LOG_OVERHEAD
            if magic != MAGIC or length < _LENGTH_LEAST or base_offset < next_offset or delta < 0 or after > end:
                break
            if epoch < previous_epoch:  # Old bytes behind new ones: left of a log that was cut and grew again.
                break
            if base_offset >= checked_from:
                if crc32c(view[at + ATTRIBUTES_AT : after]) != crc:
                    break
                batches += 1
                if producer_id >= 0:
                    if attributes & _IN_TRANSACTION:
                        self._take_in_now(segment, fields, window, at)
                    elif producer_id in latest:
                        latest[producer_id].append(fields)
                    else:
                        latest[producer_id] = deque((fields,), BATCHES_REMEMBERED)
            else:
                first = after
            if epoch > previous_epoch:
                self._end_epoch(previous_epoch, next_offset)
                self._epoch_start, previous_epoch = base_offset, epoch
            next_offset = base_offset + delta + 1
            if timestamp > max_timestamp or unindexed_bytes > interval or position + at == 0:
                segment.unindexed_bytes = unindexed_bytes
                segment.note_batch(position + at, after - at, next_offset - 1, timestamp, interval)
                max_timestamp, unindexed_bytes = segment.max_timestamp, segment.unindexed_bytes
            else:
                unindexed_bytes += after - at
            at = after
        segment.unindexed_bytes, self._next_offset = unindexed_bytes, next_offset
        self._batches += batches
        self._bytes += at - first
        self._previous_epoch = previous_epoch
        self._end_epoch(previous_epoch, next_offset)
        return at

    def _end_epoch(self, epoch: int, end_offset: int) -> None:
        """Batches of this epoch were found up to here."""
        if epoch > NO_LEADER_EPOCH:
            self._log.epochs.found(epoch, self._epoch_start, end_offset - 1)

    def _take_in_now(self, segment: Segment, fields: tuple[int, ...], window: bytes, at: int) -> None:
        header = BatchHeader._make(fields)
        self._take_in_latest(header.producer_id)
        ended = self._log.producers.take_in(header, window, at, header.base_offset, header.max_timestamp)
        if ended is not None and ended.is_aborted:
            segment.note_aborted(ended.entry)

    def _take_in_latest(self, producer_id: int) -> None:
        for fields in self._latest.pop(producer_id, ()):
            header = BatchHeader._make(fields)
            self._log.producers.advance(header, header.base_offset, header.max_timestamp)

    def _longer(self, window: bytes, left: int) -> int:
        """How many bytes the batch at the window's start needs, if it only did not fit; 0 when it is none."""
        if len(window) < HEADER_BYTES or len(window) == left:
            return 0
        header = header_at(window)
        return header.size if header.magic == MAGIC and len(window) < header.size <= left else 0


def _is_torn(segment: Segment, position: int) -> bool:
    """Whether no more lies there than the beginning of a batch, as a process leaves it that dies while it writes."""
    left = segment.size - position
    if left < HEADER_BYTES:
        return True
    header = header_at(segment.reader().read(position, HEADER_BYTES))
    return header.magic == MAGIC and header.size > left
