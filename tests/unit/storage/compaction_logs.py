"""Small logs to compact: written batch by batch, compacted, and read back as records."""

import os
from collections.abc import Sequence
from dataclasses import replace

from millstream.model.batch import BatchHeader, crc_holds, header_at, stamp
from millstream.model.records import Record, decode_batch
from millstream.storage.compaction_job import CompactionJob, CompactionResult, compact
from millstream.storage.compaction_plan import SegmentSpan
from millstream.storage.files import Files
from millstream.storage.index import OffsetIndex, TimeIndex
from millstream.storage.swap import LOG, segment_path, swap_in

FOLDER = "/data/topic-0"
SEGMENT_KINDS = (LOG, ".index", ".timeindex")
#: When the tests' clocks start; records are older.
NOW = 1_700_000_000_000


def write_log(
    files: Files, segments: Sequence[Sequence[bytearray]], folder: str = FOLDER, first_offset: int = 0
) -> None:
    """Write batches into segments, numbered one after the other from ``first_offset`` on."""
    files.make_folder(folder)
    offset = first_offset
    for batches in segments:
        base, newest = offset, (-1, 0)
        log, index, times = (
            files.open(segment_path(folder, base, kind), writable=True, create=True) for kind in SEGMENT_KINDS
        )
        for batch in batches:
            stamp(batch, 0, offset, 0)
            header = header_at(batch)
            index.append(OffsetIndex.ENTRY.pack(header.last_offset - base, log.size))
            log.append(batch)
            newest = max(newest, (header.max_timestamp, base - header.last_offset))
            offset = header.next_offset
        if batches:
            times.append(TimeIndex.ENTRY.pack(newest[0], -newest[1]))
        for file in (log, index, times):
            file.flush()
            file.close()
    for path in (folder, os.path.dirname(folder), "/"):
        files.sync_folder(path)


def spans(files: Files, folder: str = FOLDER) -> list[SegmentSpan]:
    """The log's segments, as a plan sees them."""
    return [
        SegmentSpan(int(name[:20]), files.size(f"{folder}/{name}"), -1, -1)
        for name in files.list(folder)
        if name.endswith(LOG)
    ]


def read_batches(files: Files, folder: str = FOLDER) -> list[tuple[BatchHeader, list[Record]]]:
    """Every batch of the log with its records, CRCs and growing offsets checked."""
    batches = []
    end_offset = 0
    for segment in spans(files, folder):
        data = files.read(segment_path(folder, segment.base_offset, LOG))
        at = 0
        while at < len(data):
            header = header_at(data, at)
            assert crc_holds(data, at, header)
            assert header.base_offset >= max(end_offset, segment.base_offset)
            end_offset = header.next_offset
            batches.append((header, decode_batch(data, at)))
            at += header.size
    return batches


def read_records(files: Files, folder: str = FOLDER) -> list[Record]:
    """Every record, markers included."""
    return [record for _, records in read_batches(files, folder) for record in records]


def job_for(files: Files, end_offset: int, folder: str = FOLDER, **changes: object) -> CompactionJob:
    """A run over everything below ``end_offset``, all of it dirty."""
    job = CompactionJob(
        files=files,
        folder=folder,
        segments=tuple(span for span in spans(files, folder) if span.base_offset < end_offset),
        later_segments=tuple(span for span in spans(files, folder) if span.base_offset >= end_offset),
        first_dirty_offset=0,
        end_offset=end_offset,
        now_ms=NOW,
        delete_retention_ms=1_000,
        segment_bytes=1 << 20,
        index_bytes_max=10 << 20,
        index_interval_bytes=4096,
        seed=7,
    )
    return replace(job, **changes)  # type: ignore[arg-type]


def run(job: CompactionJob) -> CompactionResult:
    """Compact, and put the result in place."""
    result = compact(job)
    for group in result.groups:
        for path in swap_in(job.files, job.folder, group.base_offset, group.replaced):
            job.files.remove(path)
    check_indexes(job.files, [group.base_offset for group in result.groups], job.folder)
    return result


def check_indexes(files: Files, bases: Sequence[int], folder: str = FOLDER) -> None:
    """Every entry names a batch that is there, and the time index ends with the greatest timestamp."""
    for base in bases:
        data = files.read(segment_path(folder, base, LOG))
        batches: dict[int, BatchHeader] = {}
        at = 0
        while at < len(data):
            batches[at] = header_at(data, at)
            at += batches[at].size
        offsets = files.read(segment_path(folder, base, ".index"))
        for relative_offset, position in OffsetIndex.ENTRY.iter_unpack(offsets):
            assert batches[position].last_offset == base + relative_offset
        newest = {header.last_offset: header.max_timestamp for header in batches.values()}
        times = list(TimeIndex.ENTRY.iter_unpack(files.read(segment_path(folder, base, ".timeindex"))))
        assert times == sorted(set(times))
        for timestamp, relative_offset in times:
            assert newest[base + relative_offset] == timestamp
        greatest = max((header.max_timestamp for header in batches.values()), default=-1)
        assert (times[-1][0] if times else -1) == max(greatest, -1)
