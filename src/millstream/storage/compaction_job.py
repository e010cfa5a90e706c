"""A run of compaction, as it is sent to a worker and as it comes back; light to import, since the broker does."""

from dataclasses import dataclass, field

from millstream.storage.compaction_plan import SegmentSpan
from millstream.storage.files import Files
from millstream.storage.swap import discard_cleaned

#: Read at once, counted uncompressed; the arrays made of it take about as much again.
CHUNK_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ProducerEnd:
    """Where a live producer stands; its last batch must stay, if need be empty."""

    epoch: int
    #: -1 when it has written nothing but markers in this epoch.
    last_data_offset: int


@dataclass(frozen=True, slots=True)
class CompactionJob:
    """One run over one log; ``segments`` are all closed ones below ``end_offset``, the clean ones too."""

    files: Files
    folder: str
    segments: tuple[SegmentSpan, ...]
    first_dirty_offset: int
    end_offset: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    index_bytes_max: int
    index_interval_bytes: int
    #: Keys are scattered by it; nobody outside may guess it.
    seed: int
    #: The segments from ``end_offset`` on, in which markers of transactions in ``segments`` may lie.
    later_segments: tuple[SegmentSpan, ...] = ()
    producers: dict[int, ProducerEnd] = field(default_factory=dict)
    dedupe_bytes: int = 128 * 1024 * 1024
    chunk_bytes: int = CHUNK_BYTES
    #: Read and written together; None is as fast as it goes.
    bytes_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class CleanedGroup:
    """A ``.cleaned`` segment and the bases of those it replaces, its own base first."""

    base_offset: int
    size_bytes: int
    replaced: tuple[int, ...]


@dataclass(slots=True)
class CompactionResult:
    """What a run did; ``cleaned_to`` is the first offset that is dirty still."""

    cleaned_to: int
    groups: list[CleanedGroup] = field(default_factory=list)
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_kept: int = 0
    records_without_key: int = 0


def compact(job: CompactionJob) -> CompactionResult:
    """Write the compacted segments of ``job``'s log beside the ones they will replace; flushed, not yet swapped in.

    Made to run in a process of its own. Nothing is left behind when it fails.
    """
    # Only the worker pays for numpy and the like.
    from millstream.storage.compaction import Compaction
    from millstream.storage.priority import lower_priority

    lower_priority()
    try:
        result = Compaction(job).run()
    except BaseException:
        for segment in job.segments:
            discard_cleaned(job.files, job.folder, segment.base_offset)
        raise
    job.files.sync_folder(job.folder)
    return result
