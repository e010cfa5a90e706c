"""Log compaction: of each key the last record stays, at its own offset, in a batch that keeps its identity.

Everything a run needs is in its job, and all it does to the log is write ``.cleaned`` files beside it. The first
pass over the dirty part notes the last offset of each key, as many keys as fit the memory it is given; the second
writes what survives, of all segments up to there.

What stays, as in Apache Kafka:
- a record that no later one of its key supersedes; one without a key never does;
- a tombstone until ``delete.retention.ms`` after the pass that first saw it as the last word on its key: that pass
  writes the time into the batch (attribute bit 6, base timestamp), and a pass after that time drops it;
- a marker as long as data of its transaction is there, and then for the same time; an aborted transaction stays in
  the index until a pass that found no data of it;
- a producer's last batch and each segment's last one, if need be empty, since they carry sequence and end;
- everything of a batch that loses no record, byte for byte.
"""

import time
from collections.abc import Iterator

import numpy as np

from millstream.model.records import control_kind, decode_batch
from millstream.storage.aborted_index import AbortedTransaction, decode_entries
from millstream.storage.chunk import Chunk, Flags, Records, chunks
from millstream.storage.cleaned_segment import CleanedSegment
from millstream.storage.compaction_job import CleanedGroup, CompactionJob, CompactionResult
from millstream.storage.compaction_plan import SegmentSpan, group_segments
from millstream.storage.offset_map import OffsetMap, key_identities
from millstream.storage.survivors import Survival, survivors
from millstream.storage.swap import ABORTED_INDEX, LOG, discard_cleaned, segment_path
from millstream.storage.transaction_fates import Marker, Transactions

#: How much larger compressed data may turn out, as long as nothing is known of it.
INFLATION_GUESS = 16.0


class TooManyKeys(Exception):
    """One batch alone has more keys than the memory given may hold."""


class Throttle:
    """Keeps the work below a rate by sleeping off what was too fast."""

    def __init__(self, bytes_per_second: float | None) -> None:
        self._bytes_per_second = bytes_per_second
        self._started_s = time.monotonic()
        self._bytes = 0

    def spend(self, count: int) -> None:
        if self._bytes_per_second is not None:
            self._bytes += count
            ahead_s = self._bytes / self._bytes_per_second - (time.monotonic() - self._started_s)
            if ahead_s > 0:
                time.sleep(ahead_s)


class Compaction:
    """The two passes over one log."""

    def __init__(self, job: CompactionJob) -> None:
        assert job.segments, "there is something to compact"
        self._job = job
        self._throttle = Throttle(job.bytes_per_second)
        # The first dirty offset may lie inside a batch, and a batch is noted whole or not at all.
        dirty_from = max(
            (each.base_offset for each in job.segments if each.base_offset <= job.first_dirty_offset), default=0
        )
        self._map = OffsetMap.of_bytes(job.dedupe_bytes, job.end_offset - dirty_from, job.seed)
        self._transactions = Transactions(self._find_markers, job.first_dirty_offset)
        self._result = CompactionResult(cleaned_to=job.first_dirty_offset)
        self._inflation = INFLATION_GUESS
        #: Where the markers are that no data is left of.
        self._emptied: set[int] = set()

    def run(self) -> CompactionResult:
        self._result.cleaned_to = self._note_keys()
        job = self._job
        groups = group_segments(
            [segment for segment in job.segments if segment.base_offset < self._result.cleaned_to],
            end_offset=job.end_offset,
            segment_bytes=job.segment_bytes,
            index_bytes_max=job.index_bytes_max,
            index_interval_bytes=job.index_interval_bytes,
        )
        for group in groups:
            self._write_group(group)
        return self._result

    # The first pass: the last offset of each key.

    def _note_keys(self) -> int:
        """Fill the map from the dirty part; the offset up to which it knows every key."""
        job, noted_to = self._job, self._job.first_dirty_offset
        for segment, end_offset in zip(job.segments, self._ends(), strict=True):
            if end_offset <= job.first_dirty_offset:
                continue
            for chunk in self._chunks(segment):
                noted_to, is_full = self._note_chunk(chunk, noted_to)
                if is_full:
                    if noted_to == job.first_dirty_offset:
                        raise TooManyKeys(
                            f"{job.folder}: a batch at offset {noted_to} has more than the {self._map.capacity} keys "
                            "that log.cleaner.dedupe.buffer.size has room for"
                        )
                    return noted_to
        return job.end_offset

    def _ends(self) -> list[int]:
        return [segment.base_offset for segment in self._job.segments[1:]] + [self._job.end_offset]

    def _note_chunk(self, chunk: Chunk, noted_to: int) -> tuple[int, bool]:
        wanted = (chunk.last_offsets >= self._job.first_dirty_offset) & ~chunk.is_control
        for batch in np.flatnonzero(wanted & chunk.is_transactional).tolist():
            wanted[batch] = not self._is_aborted(chunk, batch)
        fitting = np.cumsum(np.where(wanted, chunk.record_counts, 0)) <= self._map.room
        records = self._decode(chunk, wanted & fitting)
        columns = records.columns
        offsets = chunk.base_offsets[records.batch_of] + columns.offset_deltas
        rows = (columns.key_len >= 0) & (offsets >= self._job.first_dirty_offset)
        self._map.put(key_identities(records.payload, columns)[rows], offsets[rows])
        fits = int(np.count_nonzero(fitting))
        if fits:
            noted_to = max(noted_to, int(chunk.last_offsets[fits - 1]) + 1)
        return noted_to, fits < len(chunk)

    def _is_aborted(self, chunk: Chunk, batch: int) -> bool:
        return self._transactions.is_aborted(int(chunk.producer_ids[batch]), int(chunk.base_offsets[batch]))

    def _find_markers(self) -> Iterator[Marker]:
        """Every marker from the first dirty offset on, also past what is compacted."""
        for segment in (*self._job.segments, *self._job.later_segments):
            for chunk in self._chunks(segment):
                for batch in np.flatnonzero(chunk.is_control & (chunk.record_counts > 0)).tolist():
                    (record, *_) = decode_batch(chunk.data, int(chunk.starts[batch]))
                    yield int(chunk.producer_ids[batch]), record.offset, control_kind(record)

    # The second pass: what survives.

    def _write_group(self, group: list[SegmentSpan]) -> None:
        """Write one segment in place of the group's; none where the group is a single one that loses nothing."""
        job, result = self._job, self._result
        cleaned = CleanedSegment(job.files, job.folder, group[0].base_offset, job.index_interval_bytes)
        last = next((segment for segment in reversed(group) if segment.size_bytes), group[-1])
        is_same = len(group) == 1
        for segment in group:
            for chunk in self._chunks(segment):
                ends_group = segment is last and chunk.end == segment.size_bytes
                data, batches, records_kept = survivors(chunk, self._judge(chunk, ends_group))
                is_same &= len(batches) == len(chunk) and data == chunk.data[: len(data)]
                cleaned.append(data, batches)
                self._throttle.spend(len(data))
                result.records_kept += records_kept
        cleaned.close(self._aborted_left(group))
        if is_same:
            discard_cleaned(job.files, job.folder, cleaned.base_offset)
            return
        result.bytes_written += cleaned.size
        result.groups.append(
            CleanedGroup(cleaned.base_offset, cleaned.size, tuple(segment.base_offset for segment in group))
        )

    def _aborted_left(self, group: list[SegmentSpan]) -> list[AbortedTransaction]:
        """The aborted transactions of the group's segments, without those of which no data was there any more."""
        job, left = self._job, []
        for segment in group:
            path = segment_path(job.folder, segment.base_offset, ABORTED_INDEX)
            if job.files.exists(path):
                left += decode_entries(job.files.read(path))
        return [entry for entry in left if entry.last_offset not in self._emptied]

    def _judge(self, chunk: Chunk, ends_group: bool) -> Survival:
        """Which records of the chunk stay, and which batches must, with or without any."""
        job, transactions = self._job, self._transactions
        is_noted = chunk.base_offsets < self._result.cleaned_to
        discarded = np.zeros(len(chunk), np.bool_)
        ends_empty = np.zeros(len(chunk), np.bool_)
        is_past_horizon = chunk.has_horizon & (chunk.base_timestamps <= job.now_ms)
        for batch in np.flatnonzero(is_noted & (chunk.is_transactional | chunk.is_control)).tolist():
            if chunk.is_control[batch]:
                ends_empty[batch] = transactions.end(int(chunk.producer_ids[batch]))
                if ends_empty[batch]:
                    self._emptied.add(int(chunk.base_offsets[batch]))
                discarded[batch] = ends_empty[batch] and is_past_horizon[batch]
            else:
                transactions.see_data(int(chunk.producer_ids[batch]))
                discarded[batch] = self._is_aborted(chunk, batch)
        records = self._decode(chunk, is_noted & ~chunk.is_control & ~discarded)
        columns, batch_of = records.columns, records.batch_of
        offsets = chunk.base_offsets[batch_of] + columns.offset_deltas
        has_key, has_value = columns.key_len >= 0, columns.value_len >= 0
        is_last = offsets >= self._map.get(key_identities(records.payload, columns))
        stays = has_key & is_last & (has_value | ~is_past_horizon[batch_of])
        self._result.records_read += int(chunk.record_counts.sum())
        self._result.records_without_key += int(np.count_nonzero(~has_key))
        must_stay = self._carries_producer(chunk) | ~is_noted
        must_stay[-1] |= ends_group
        return Survival(
            records=records,
            stays=stays,
            is_tombstone=~has_value,
            is_untouched=~is_noted | (chunk.is_control & ~discarded),
            ends_empty=ends_empty,
            must_stay=must_stay,
            horizon_ms=job.now_ms + job.delete_retention_ms,
        )

    def _carries_producer(self, chunk: Chunk) -> Flags:
        """Whether each batch is the last one of a live producer, and so holds its sequence or epoch."""
        ends = self._job.producers
        last_data = [end.last_data_offset for end in ends.values() if end.last_data_offset >= 0]
        carries: Flags = np.isin(chunk.last_offsets, np.array(last_data, np.int64)) & (chunk.producer_ids >= 0)
        for batch in np.flatnonzero(chunk.is_control).tolist():
            end = ends.get(int(chunk.producer_ids[batch]))
            if end is not None and end.last_data_offset < 0:
                carries[batch] = chunk.header(batch).producer_epoch == end.epoch
        return carries

    def _decode(self, chunk: Chunk, wanted: Flags) -> Records:
        """The chunk's records; how much larger they are than the chunk decides how much is read next time."""
        records = chunk.decode(wanted)
        self._inflation = len(records.payload) / len(chunk.data)
        return records

    def _chunks(self, segment: SegmentSpan) -> Iterator[Chunk]:
        job = self._job
        file = job.files.open(segment_path(job.folder, segment.base_offset, LOG))
        try:
            for chunk in chunks(file, segment.size_bytes, lambda: int(job.chunk_bytes / self._inflation)):
                read = chunk.end - chunk.position
                self._result.bytes_read += read
                self._throttle.spend(read)
                yield chunk
        finally:
            file.close()
