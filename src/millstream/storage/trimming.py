"""Cutting a log: at its end when replicas disagree, at its start when records have had their time."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from millstream.model.errors import ErrorCode, ProtocolError
from millstream.storage import retention
from millstream.storage.replay import aborted_of, ended_after, reload_producers
from millstream.storage.retention import SegmentFacts
from millstream.storage.segment import Segment
from millstream.storage.walk import DamagedBatch

if TYPE_CHECKING:
    from millstream.storage.log import Log

FILE_NAME_LENGTH_MAX = 255
DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"

_log = logging.getLogger(__name__)


def truncate_to(log: "Log", offset: int) -> None:
    """Remove every batch with an offset at or after ``offset``; one that spans it goes whole."""
    if offset >= log.end_offset:
        log.epochs.truncate_from(log.end_offset)  # One may begin there that nothing was written under.
        return
    if offset < log.start_offset:
        restart_at(log, offset)
        return
    if log.is_offline:
        raise log.directory.refusal()
    try:
        later = [segment for segment in log.segments if segment.base_offset > offset]
        if later:
            log.segments.drop(later, log.config.file_delete_delay_ms)
            log.directory.files.sync_folder(log.folder)  # Or a crash may bring them back behind what comes now.
        segment = log.segments.active
        aborted_of(log, segment)
        place = segment.find(offset)
        if place is not None:
            if place.base_offset < log.start_offset:  # Nothing is left that could be read.
                restart_at(log, log.start_offset)
                return
            segment.cut(place.position, place.base_offset)
            offset = min(offset, place.base_offset)
        log.was_cut(offset)
        log.epochs.truncate_from(offset)
        log.snapshots.remove_after(offset)
        reload_producers(log, offset)
    except OSError as error:
        raise log.directory.fail(error) from error
    except DamagedBatch as damage:
        raise ProtocolError(ErrorCode.CORRUPT_MESSAGE, str(damage)) from damage


def restart_at(log: "Log", offset: int) -> None:
    """Remove everything and begin again at ``offset``."""
    if log.is_offline:
        raise log.directory.refusal()
    try:
        log.segments.drop(list(log.segments), log.config.file_delete_delay_ms)
        log.segments.begin(offset, log.config)
        log.directory.files.sync_folder(log.folder)
        log.start_offset = offset
        log.damage.clear()
        log.unflushed_batches = log.unflushed_bytes = 0
        log.was_cut(offset)
        log.epochs.clear()
        log.snapshots.remove_after(-1)
        log.producers.clear(offset)
        log.directory.on_rollback(log.directory)
    except OSError as error:
        raise log.directory.fail(error) from error


def hold_back(log: "Log", high_watermark: int) -> None:
    """Find the transactions again that ended at or above ``high_watermark``."""
    try:
        log.producers.hold_back(ended_after(log, high_watermark))
    except OSError as error:
        raise log.directory.fail(error) from error


def advance_start(log: "Log", offset: int) -> None:
    """Let the log start at ``offset``, which lies in it."""
    if offset > log.end_offset:
        raise ProtocolError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is past the end {log.end_offset}")
    if log.is_offline:
        raise log.directory.refusal()
    if offset > log.start_offset:
        log.start_offset = offset
        log.directory.is_start_moved = True
        log.epochs.truncate_before(offset)


def enforce_retention(log: "Log", now_ms: int, upper: int) -> int:
    """Remove segments that have had their time; how many bytes that freed."""
    log.settle()  # What comes in now must not go with what has had its time.
    if log.is_offline:
        return 0
    try:
        segments = list(log.segments)
        facts = [
            SegmentFacts(log.segments.end_of(at, log.end_offset), segment.size, _newest_ms(log, segment))
            for at, segment in enumerate(segments)
        ]
        count = retention.expired_count(facts, log.config, now_ms, log.start_offset, upper)
        if count == 0:
            return 0
        if count == len(segments):
            log.roll(now_ms)
        freed = log.segments.drop(segments[:count], log.config.file_delete_delay_ms)
        first_offset = log.segments[0].base_offset
        for segment in segments[:count]:
            log.damage.pop(segment.base_offset, None)
        log.snapshots.remove_before(first_offset)
        advance_start(log, max(first_offset, log.start_offset))
        _log.info("%s starts at %d now; %d bytes are removed", log.topic_partition, log.start_offset, freed)
    except OSError as error:
        raise log.directory.fail(error) from error
    return freed


def _newest_ms(log: "Log", segment: Segment) -> int:
    """By the batches' own timestamps; of a segment without any, or damaged, by its file's."""
    if log.config.retention_ms == retention.UNLIMITED or not log.config.cleanup_delete:
        return 0
    try:
        newest = segment.max_timestamp
    except DamagedBatch:
        newest = -1
    return newest if newest >= 0 else log.directory.files.modified_ms(segment.path)


def replace_segments(log: "Log", base_offset: int, replaced: Sequence[int]) -> None:
    """Put a cleaned segment in the place of closed ones."""
    assert log.segments.active.base_offset not in replaced, "the active segment is not compacted"
    try:
        log.segments.replace(base_offset, replaced, log.config.file_delete_delay_ms)
    except OSError as error:
        raise log.directory.fail(error) from error
    for old in replaced:
        log.damage.pop(old, None)


def delete(log: "Log") -> None:
    """Rename the folder out of the way and have it removed in time."""
    log.directory.doom(_put_away(log, DELETE_SUFFIX), log.config.file_delete_delay_ms)


def set_aside(log: "Log") -> str:
    """Rename the folder out of the way, as Kafka does with one that is no replica's, and keep it; its new path."""
    return _put_away(log, STRAY_SUFFIX)


def _put_away(log: "Log", ending: str) -> str:
    directory = log.directory
    log.settle()
    log.is_deleted = True
    for segment in log.segments:
        segment.release()
    directory.open_files.forget_folder(log.folder)
    suffix = f"-{log.topic_partition.partition}.{directory.random.getrandbits(128):032x}{ending}"
    topic = log.topic_partition.topic[: FILE_NAME_LENGTH_MAX - len(suffix)]
    path = f"{directory.path}/{topic}{suffix}"
    try:
        directory.files.rename(log.folder, path)
        directory.files.sync_folder(directory.path)
    except OSError as error:
        raise directory.fail(error) from error
    return path
