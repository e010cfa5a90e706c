"""Opening a partition's folder, whatever state the last process or machine left it in.

After a clean stop only the last segment's tail is looked at.  After any other, everything from the recovery point on
is checked batch by batch; the first one that does not hold, and all after it, is cut.
"""

import logging
from typing import NamedTuple

from fastcrc.crc32 import iscsi as crc32c

from millstream.config.topic import TopicConfig
from millstream.model.batch import (
    ATTRIBUTES_AT,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC,
    header_at,
)
from millstream.model.ids import TopicPartition, Uuid
from millstream.storage.checkpoint import DamagedCheckpoint
from millstream.storage.directory import LogDirectory
from millstream.storage.log import Log
from millstream.storage.producer_snapshot import SUFFIX as SNAPSHOT_SUFFIX
from millstream.storage.segment import DELETED_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES, Segment
from millstream.storage.swap import CLEANED, SWAP, finish_swaps
from millstream.storage.trimming import reload_producers
from millstream.storage.walk import STRIDE_BYTES, DamagedBatch, headers

_TEMPORARY = (DELETED_SUFFIX, CLEANED, SWAP, ".tmp")
_OFFSET_DIGITS = 20
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
        return _begun(log, known.start_offset)
    log.adopt(segments, max(segments[0].base_offset, known.start_offset), segments[-1].base_offset)
    _load_epochs(log)
    is_clean = known.is_clean and _load_clean(log)
    if not is_clean:
        _Recovery(log, known.recovery_point).run()
    if log.end_offset < log.start_offset:
        _log.warning("%s ends at %d, before its start %d", log.folder, log.end_offset, log.start_offset)
        log.restart_at(log.start_offset)
        return log
    log.epochs.truncate_from(log.end_offset)
    log.epochs.truncate_before(log.start_offset)
    log.epochs.rewrite()
    log.snapshots.remove_after(log.end_offset)
    reload_producers(log)
    if is_clean:
        log.recovery_point = log.flusher.durable_offset = log.end_offset
    return log


def _begun(log: Log, offset: int) -> Log:
    log.end_offset = log.producers.end_offset = log.recovery_point = log.flusher.durable_offset = offset
    return log


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
        if name.endswith(SEGMENT_SUFFIXES) and name[:_OFFSET_DIGITS] not in stems:
            _log.warning("%s/%s belongs to no segment and is removed", folder, name)
            files.remove(f"{folder}/{name}")
    log.snapshots.offsets = [int(name[:_OFFSET_DIGITS]) for name in names if _is_numbered(name, SNAPSHOT_SUFFIX)]
    now_ms = log.directory.clock.now_ms()
    return [
        Segment(log.directory.open_files, folder, base, files.size(f"{folder}/{base:020d}{LOG_SUFFIX}"), now_ms)
        for base in bases
    ]


def _is_numbered(name: str, suffix: str) -> bool:
    return len(name) == _OFFSET_DIGITS + len(suffix) and name.endswith(suffix) and name[:_OFFSET_DIGITS].isdigit()


def _load_epochs(log: Log) -> None:
    try:
        log.epochs.load()
        return
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
        log.epochs.note(first.leader_epoch, first.base_offset)
        if following is not None and _first_epoch(following) == first.leader_epoch:
            continue  # Epochs only grow, so the whole segment is of this one.
        try:
            for _, header in headers(segment.reader(), 0, segment.size, STRIDE_BYTES):
                log.epochs.note(header.leader_epoch, header.base_offset)
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

    def run(self) -> None:
        log = self._log
        pending = log.segments.since(self._recovery_point)
        while pending:
            segment = pending.pop(0)
            if segment.base_offset < self._next_offset:
                _log.warning("%s overlaps the segment before it and is removed", segment.path)
                log.segments.drop([segment], 0)
                continue
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
                self._cut(segment, good_bytes)
                if pending:
                    _log.warning("%s: %d segments after the damage are removed", log.folder, len(pending))
                    log.segments.drop(pending, 0)
                break
        end_offset = max(self._next_offset, log.segments.active.base_offset)
        log.adopt(list(log.segments), log.start_offset, end_offset)
        log.recovery_point = log.flusher.durable_offset = min(self._recovery_point, log.end_offset)
        log.unflushed_batches, log.unflushed_bytes = self._batches, self._bytes
        log.unflushed_since_ms = log.directory.clock.now_ms()
        log.snapshots.remove_after(max(log.recovery_point, log.start_offset))

    def _cut(self, segment: Segment, size: int) -> None:
        writer = segment.writer()
        writer.truncate(size)
        segment.size = size
        segment.release()

    def _scan(self, segment: Segment) -> int:
        """Check the segment's batches and index them; how many of its bytes are good."""
        position = segment.trust_below(self._recovery_point)
        interval = self._log.config.index_interval_bytes
        file, size = segment.reader(), segment.size
        unpack, header_bytes, checked_from = HEADER.unpack_from, HEADER_BYTES, self._recovery_point
        note_batch, note_epoch = segment.note_batch, self._log.epochs.note
        latest_epoch, next_offset = self._log.epochs.latest, self._next_offset
        window_bytes = STRIDE_BYTES
        while position < size:
            window = file.read(position, min(window_bytes, size - position))
            view, at, end = memoryview(window), 0, len(window)
            while at + header_bytes <= end:
                base_offset, length, epoch, magic, crc, _, delta, _, timestamp, _, _, _, _ = unpack(window, at)
                batch_bytes = length + LOG_OVERHEAD
                if magic != MAGIC or batch_bytes < header_bytes or base_offset < next_offset or delta < 0:
                    break
                after = at + batch_bytes
                if after > end:
                    break
                if base_offset >= checked_from:
                    if crc32c(view[at + ATTRIBUTES_AT : after]) != crc:
                        break
                    self._batches += 1
                    self._bytes += batch_bytes
                next_offset = base_offset + delta + 1
                note_batch(position + at, batch_bytes, next_offset - 1, timestamp, interval)
                if epoch > latest_epoch:
                    note_epoch(epoch, base_offset)
                    latest_epoch = epoch
                at = after
            if at == 0:
                window_bytes = self._longer(window, size - position)
                if not window_bytes:
                    break
            position += at
        self._next_offset = next_offset
        segment.flush_indexes()
        return position

    def _longer(self, window: bytes, left: int) -> int:
        """How many bytes the batch at the window's start needs, if it only did not fit; 0 when it is none."""
        if len(window) < HEADER_BYTES or len(window) == left:
            return 0
        header = header_at(window)
        return header.size if header.magic == MAGIC and len(window) < header.size <= left else 0
