"""Finding records by time, and checking what a disk gave back.

A search looks at indexes and headers on the loop, and asks for the rest: it yields each piece of work that decodes a
batch or reads far, which may be done in a thread for it touches nothing but a file, and is sent what came of it.
"""

import logging
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from millstream.model.batch import LOG_APPEND_TIME, NO_TIMESTAMP, BatchHeader
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.records import decode_batch
from millstream.model.slices import FileSlice
from millstream.model.workers import Workers
from millstream.storage.files import File
from millstream.storage.scrub import check_slice
from millstream.storage.walk import STRIDE_BYTES, DamagedBatch, Place, headers

if TYPE_CHECKING:
    from millstream.storage.log import Log

#: A plain batch up to this size is decoded sooner than a thread is woken.
LIGHT_BYTES = 4096

#: Timestamp, offset and leader epoch of a record.
Found = tuple[int, int, int]
Search = Generator[Callable[[], Any], Any, Found | None]

_log = logging.getLogger(__name__)


class _Batch(NamedTuple):
    """A batch that may hold what is looked for."""

    file: File
    position: int
    header: BatchHeader

    @property
    def is_light(self) -> bool:
        header = self.header
        return bool(header.attributes & LOG_APPEND_TIME) or (not header.compression and header.size <= LIGHT_BYTES)


def find_timestamp(log: "Log", timestamp: int) -> Search:
    """The first record at or after ``timestamp``."""
    offset = log.start_offset
    while (batch := _first_batch(log, timestamp, offset)) is not None:
        decode = partial(_first_record, batch, timestamp, log.start_offset)
        found: Found | None = decode() if batch.is_light else (yield decode)
        if found is not None:
            return found
        offset = batch.header.next_offset
    return None


def max_timestamp(log: "Log") -> Search:
    """The first record with the greatest timestamp there is."""
    start_offset = log.start_offset
    first, *rest = log.segments.since(start_offset)
    newest_later = max((segment.max_timestamp for segment in rest), default=NO_TIMESTAMP)
    newest = max(first.max_timestamp, newest_later)
    if newest < 0:
        return None
    found = yield from find_timestamp(log, newest)
    if found is not None:
        return found
    # The newest lies in the first segment, before the log's start.
    place = first.find(start_offset)
    if place is not None:
        newest_later = max(newest_later, (yield partial(_newest, first.reader(), place, first.size, start_offset)))
    return (yield from find_timestamp(log, newest_later)) if newest_later >= 0 else None


def run(log: "Log", search: Search) -> Found | None:
    """Search here and now."""
    with _refusals(log):
        try:
            work = next(search)
            while True:
                work = search.send(work())
        except StopIteration as end:
            found: Found | None = end.value
            return found


async def run_async(log: "Log", search: Search, workers: Workers) -> Found | None:
    """Search, doing what takes long in a thread."""
    with _refusals(log):
        try:
            work = next(search)
            while True:
                work = search.send(await workers.in_thread(work))
        except StopIteration as end:
            found: Found | None = end.value
            return found


@contextmanager
def _refusals(log: "Log") -> Iterator[None]:
    if log.is_deleted or log.is_offline:
        raise log.refusal()
    try:
        yield
    except OSError as error:
        if log.is_deleted:
            raise log.refusal() from error
        raise log.directory.fail(error) from error
    except DamagedBatch as damage:
        raise corrupt(log, damage) from damage


def _first_batch(log: "Log", timestamp: int, offset: int) -> _Batch | None:
    for segment in log.segments.since(offset):
        if segment.max_timestamp >= timestamp:
            found = segment.first_batch(timestamp, offset)
            if found is not None:
                return _Batch(segment.reader(), *found)
    return None


def _first_record(batch: _Batch, timestamp: int, start_offset: int) -> Found | None:
    header = batch.header
    if header.attributes & LOG_APPEND_TIME:
        return header.max_timestamp, max(header.base_offset, start_offset), header.leader_epoch
    for record in decode_batch(batch.file.read(batch.position, header.size)):
        if record.timestamp >= timestamp and record.offset >= start_offset:
            return record.timestamp, record.offset, header.leader_epoch
    return None


def _newest(file: File, place: Place, end: int, start_offset: int) -> int:
    """The greatest timestamp from ``start_offset``, which lies in the batch at ``place``, to the file's ``end``."""
    records = decode_batch(file.read(place.position, place.size))
    first = [record.timestamp for record in records if record.offset >= start_offset]
    rest = headers(file, place.position + place.size, end, STRIDE_BYTES)
    return max(first + [header.max_timestamp for _, header in rest], default=NO_TIMESTAMP)


def check(log: "Log", piece: FileSlice, offset: int) -> None:
    """Cut ``piece`` before its first damaged batch; CORRUPT_MESSAGE when that is its first."""
    try:
        check_slice(piece)
    except DamagedBatch as damage:
        _log.error("%s, segment with offset %d: %s", log.topic_partition, offset, damage)
        base_offset = log.segments.since(offset)[0].base_offset
        log.damage[base_offset] = min(damage.position, log.damage.get(base_offset, damage.position))
        if damage.position <= piece.position:
            raise corrupt(log, damage) from damage
        piece.length = damage.position - piece.position


def corrupt(log: "Log", damage: DamagedBatch) -> ProtocolError:
    """The refusal to read bytes that are not what was written."""
    return ProtocolError(ErrorCode.CORRUPT_MESSAGE, f"{log.topic_partition} is damaged: {damage}")
