"""A partition's log: segments in a folder, appended to at the end and read from anywhere.

Called on the event loop only; ``FlushPlan.run`` and ``WriteAhead.run`` alone may run in a thread, while appends go on.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

from millstream.config.topic import TopicConfig
from millstream.model.batch import (
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    BatchHeader,
    stamp,
    stamp_append_time,
)
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import ZERO_UUID, TopicPartition, Uuid
from millstream.model.slices import FileSlice
from millstream.model.workers import Workers
from millstream.storage import acceptance, isolation, lookup, trimming
from millstream.storage.aborted_index import AbortedTransaction
from millstream.storage.ahead import WriteAhead
from millstream.storage.checkpoint import LEADER_EPOCHS
from millstream.storage.directory import LogDirectory
from millstream.storage.flush import Flusher
from millstream.storage.leader_epochs import LeaderEpochs
from millstream.storage.producer_state import ProducerStates
from millstream.storage.segment import RELATIVE_OFFSET_MAX, Segment
from millstream.storage.segments import Segments
from millstream.storage.sent_batches import Batches, batches_from_leader
from millstream.storage.snapshots import Snapshots
from millstream.storage.walk import DamagedBatch

#: Places of this many recent batches at least are at hand, so that reads at the tail touch no index.
RECENT_BATCHES = 1024
LOG_APPEND_TIME_TYPE = "LogAppendTime"


class AppendOutcome(NamedTuple):
    """Where an append went, or where the batch it repeats has been all along."""

    first_offset: int
    last_offset: int
    append_time_ms: int
    log_start_offset: int
    is_duplicate: bool = False


class Log:
    """One partition on disk."""

    __slots__ = (
        "_active",
        "_recent_offsets",
        "_recent_positions",
        "ahead",
        "config",
        "damage",
        "directory",
        "end_offset",
        "epochs",
        "flusher",
        "folder",
        "is_deleted",
        "producers",
        "recovery_point",
        "segments",
        "snapshots",
        "start_offset",
        "topic_id",
        "topic_partition",
        "unflushed_batches",
        "unflushed_bytes",
        "unflushed_since_ms",
    )

    def __init__(
        self,
        directory: LogDirectory,
        topic_partition: TopicPartition,
        config: TopicConfig,
        topic_id: Uuid = ZERO_UUID,
        folder_name: str | None = None,
    ) -> None:
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = config
        self.folder = f"{directory.path}/{folder_name or topic_partition}"
        self.start_offset = 0
        #: The next offset to be written.
        self.end_offset = 0
        #: What a start after a crash need not scan: all before is on disk, index and producer state included.
        self.recovery_point = 0
        self.epochs = LeaderEpochs(directory, f"{self.folder}/{LEADER_EPOCHS}", self)
        self.producers = ProducerStates()
        self.snapshots = Snapshots(directory.files, directory.open_files, self.folder)
        self.segments = Segments(directory, self.folder)
        self.flusher = Flusher(self)
        #: A batch that is being written behind the end.
        self.ahead: WriteAhead | None = None
        self.is_deleted = False
        self.unflushed_batches = 0
        self.unflushed_bytes = 0
        self.unflushed_since_ms = 0
        #: First position known to be damaged, by the segment's first offset.
        self.damage: dict[int, int] = {}
        self._forget_recent()

    @property
    def is_offline(self) -> bool:
        return self.directory.failure is not None

    def refusal(self) -> ProtocolError:
        """Why the log cannot be used any more."""
        if self.is_deleted:  # Its folder is gone, which says nothing about the disk.
            return ProtocolError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.folder} was deleted, or has moved")
        return self.directory.refusal()

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    def create(self) -> None:
        """Make the folder and its first segment."""
        try:
            self.directory.files.make_folder(self.folder)
            self._active = self.segments.begin(self.start_offset, self.config)
        except OSError as error:
            raise self.directory.fail(error) from error
        self.flusher.note_segment(None)

    def begin_at(self, offset: int) -> None:
        """As ``create``, for a log whose first offset will be ``offset``."""
        self.start_offset = self.end_offset = self.producers.end_offset = offset
        self.create()
        self.recovery_point = self.flusher.durable_offset = offset

    def adopt(self, segments: list[Segment], start_offset: int, end_offset: int) -> None:
        """Stand on ``segments``, as loaded from the folder; there is at least one."""
        self.segments.adopt(segments)
        self._active = segments[-1]
        self.start_offset = start_offset
        self.end_offset = end_offset

    def _forget_recent(self) -> None:
        self._recent_offsets = array("q")
        self._recent_positions = array("q")

    # Appending.

    def append(
        self, records: memoryview, batches: Batches, leader_epoch: int, now_ms: int, *, is_client: bool = True
    ) -> AppendOutcome:
        """Append batches whose CRCs were checked, stamped with their place; all of them, or none and a refusal.

        A repeat of a batch that is in the log is answered with that batch's place, and nothing is appended.
        ``is_client`` is False for the broker's own coordinators, who write markers and number no records.
        """
        if self.directory.failure is not None:
            raise self.directory.refusal()
        if self.ahead is not None and self.ahead.records is not records:
            self.settle()
        config = self.config
        repeated = acceptance.check(self, records, batches, is_client)
        append_time_ms = now_ms if config.message_timestamp_type == LOG_APPEND_TIME_TYPE else NO_TIMESTAMP
        if repeated is not None:
            append_time_ms = repeated.timestamp if append_time_ms >= 0 else NO_TIMESTAMP
            return AppendOutcome(
                repeated.first_offset, repeated.last_offset, append_time_ms, self.start_offset, is_duplicate=True
            )
        first_offset = offset = self.end_offset
        max_timestamp = append_time_ms
        for at, header in batches:
            stamp(records, at, offset, leader_epoch)
            if append_time_ms >= 0:
                stamp_append_time(records, at, header, append_time_ms)
            elif header.max_timestamp > max_timestamp:
                max_timestamp = header.max_timestamp
            offset += header.last_offset_delta + 1
        epochs = self.epochs
        if leader_epoch > epochs.latest:
            epochs.assign(leader_epoch, first_offset)
        if epochs.is_behind:
            epochs.rewrite()
        self._write(records, first_offset, offset - 1, max_timestamp, now_ms)
        self._note(records, batches, first_offset, append_time_ms, now_ms)
        return AppendOutcome(first_offset, offset - 1, append_time_ms, self.start_offset)

    def write_ahead(
        self, records: memoryview, header: BatchHeader, leader_epoch: int, now_ms: int, take_in: Callable[[], None]
    ) -> WriteAhead | None:
        """Begin to append one batch: its bytes are written by whoever runs what is returned, in a thread.

        ``take_in`` then appends it, with the same arguments.  None where the batch is in the log, or begins a segment.
        """
        self.settle()
        file, has_own_time = self._active.file, self.config.message_timestamp_type == LOG_APPEND_TIME_TYPE
        last_offset, max_timestamp = self.end_offset + header.last_offset_delta, header.max_timestamp
        if (
            acceptance.check(self, records, ((0, header),), True) is not None
            or file is None
            or self._must_roll(len(records), last_offset, now_ms if has_own_time else max_timestamp, now_ms)
        ):
            return None
        stamp(records, 0, self.end_offset, leader_epoch)
        if has_own_time:
            stamp_append_time(records, 0, header, now_ms)
        self.ahead = WriteAhead(self, file, records, take_in)
        return self.ahead

    def settle(self) -> None:
        """Have a batch that is being written taken in, so that the log's end may be changed."""
        if self.ahead is not None:
            self.ahead.settle()

    def append_as_follower(self, records: memoryview) -> None:
        """Append what the leader sent, its offsets and epochs as they are; a batch cut short at the end is left out."""
        if self.directory.failure is not None:
            raise self.directory.refusal()
        self.settle()
        batches = batches_from_leader(records, self.end_offset)
        if not batches:
            return
        at, last = batches[-1]
        records = records[: at + last.size]
        first_offset = batches[0][1].base_offset
        if last.last_offset - first_offset > RELATIVE_OFFSET_MAX and len(batches) > 1:
            for at, header in batches:  # Too far apart for one segment; each alone may start its own.
                self.append_as_follower(records[at : at + header.size])
            return
        now_ms = self.directory.clock.now_ms()
        max_timestamp = max(header.max_timestamp for _, header in batches)
        for _, header in batches:
            if header.leader_epoch > self.epochs.latest:
                self.epochs.assign(header.leader_epoch, header.base_offset)
        self.epochs.rewrite()
        self._write(records, first_offset, last.last_offset, max_timestamp, now_ms)
        self._note(records, batches, first_offset, NO_TIMESTAMP, now_ms, is_stamped=True)

    def _write(self, records: memoryview, first_offset: int, last_offset: int, max_timestamp: int, now_ms: int) -> None:
        """Write to the active segment, or to a new one when that is full, old or cannot number the offsets."""
        segment = self._active
        try:
            if self._must_roll(len(records), last_offset, max_timestamp, now_ms):
                # One segment goes on where the other ends, whatever offsets a leader has left out.
                is_far = last_offset - self.end_offset > RELATIVE_OFFSET_MAX
                segment = self._roll(first_offset if is_far else self.end_offset)
            file = segment.file
            if file is None:
                file = segment.writer()
            if self.ahead is None or not self.ahead.counts_in(file, records):
                file.append(records)
        except OSError as error:
            raise self.directory.fail(error) from error

    def _must_roll(self, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        """Whether the active segment is full, too old for what comes, or cannot number it."""
        segment, config = self._active, self.config
        return segment.size > 0 and (
            segment.size + size > config.segment_bytes
            or len(segment.offsets) * 8 + 8 > config.segment_index_bytes
            or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
            or segment.waited_ms(max_timestamp, now_ms) > config.segment_ms - segment.roll_jitter_ms
        )

    def _note(
        self,
        records: memoryview,
        batches: Batches,
        offset: int,
        append_time_ms: int,
        now_ms: int,
        *,
        is_stamped: bool = False,
    ) -> None:
        """Take batches that were written into index, producer state and the list of recent ones."""
        segment = self._active
        position, interval = segment.size, self.config.index_interval_bytes
        if not self.unflushed_batches:
            self.unflushed_since_ms = now_ms
        for at, header in batches:
            if is_stamped:
                offset = header.base_offset
            size = header.length + LOG_OVERHEAD
            last_offset = offset + header.last_offset_delta
            timestamp = append_time_ms if append_time_ms >= 0 else header.max_timestamp
            segment.note_batch(position, size, last_offset, timestamp, interval)
            self._recent_offsets.append(offset)
            self._recent_positions.append(position)
            if header.producer_id >= 0:
                ended = self.producers.take_in(header, records, at, offset, timestamp)
                if ended is not None and ended.is_aborted:
                    self.segments.note_aborted(ended.entry)
            position += size
            offset = last_offset + 1
        if len(self._recent_offsets) > 2 * RECENT_BATCHES:
            del self._recent_offsets[:-RECENT_BATCHES], self._recent_positions[:-RECENT_BATCHES]
        self.unflushed_batches += len(batches)
        self.unflushed_bytes += position - segment.size
        segment.size = position
        self.end_offset = self.producers.end_offset = offset

    def roll(self, now_ms: int) -> None:
        """Begin a new segment, unless the active one is empty."""
        self.settle()
        if self._active.size:
            try:
                self._roll(self.end_offset)
            except OSError as error:
                raise self.directory.fail(error) from error

    def _roll(self, base_offset: int) -> Segment:
        closed = self._active
        closed.seal_times()
        closed.flush_indexes()
        self.producers.end_offset = base_offset
        if base_offset not in self.snapshots.offsets:
            self.snapshots.write(self.producers)
        self._active = self.segments.begin(base_offset, self.config)
        self.flusher.note_segment(closed)
        self._forget_recent()
        return self._active

    # Reading.

    def read(self, offset: int, bytes_max: int, upper: int) -> FileSlice | None:
        """Batches from the one with ``offset`` on and below ``upper``: at least one whole, the last one maybe cut.

        None when there is nothing there yet; OFFSET_OUT_OF_RANGE outside the log; CORRUPT_MESSAGE, and never the
        bytes, where the log is known to be damaged; NOT_LEADER_OR_FOLLOWER when it was deleted or has moved.
        """
        if self.is_deleted or self.directory.failure is not None:
            raise self.refusal()
        if not self.start_offset <= offset <= self.end_offset:
            raise ProtocolError(
                ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is not in [{self.start_offset}, {self.end_offset}]"
            )
        if offset >= upper:
            return None
        recent = self._recent_offsets
        if not recent or offset < recent[0]:
            return self._read_older(offset, bytes_max, upper)
        positions, segment = self._recent_positions, self._active
        at = bisect_right(recent, offset) - 1
        position = positions[at]
        end = segment.size if upper >= self.end_offset else positions[bisect_right(recent, upper, at) - 1]
        length = end - position
        if length > bytes_max:
            first = (positions[at + 1] if at + 1 < len(positions) else segment.size) - position
            length = max(bytes_max, first)
        if length <= 0:
            return None
        file = segment.file
        return FileSlice(file if file is not None else segment.reader(), position, length)

    def _read_older(self, offset: int, bytes_max: int, upper: int) -> FileSlice | None:
        try:
            for segment in self.segments.since(offset):
                place = segment.find(offset)
                if place is None:
                    continue
                end = segment.size
                bound = segment.find(upper) if upper < self.end_offset else None
                if bound is not None:
                    end = bound.position
                if self.damage and (damage := self.damage.get(segment.base_offset)) is not None:
                    if place.position >= damage:
                        raise DamagedBatch(damage, "a batch is damaged")
                    end = min(end, damage)
                length = min(end - place.position, max(bytes_max, place.size))
                return FileSlice(segment.reader(), place.position, length) if length > 0 else None
        except OSError as error:
            raise self.directory.fail(error) from error
        except DamagedBatch as damage:
            raise lookup.corrupt(self, damage) from damage
        return None

    def aborted_within(self, piece: FileSlice, offset: int, upper: int) -> list[AbortedTransaction]:
        """The aborted transactions that a reader of committed records must know of to read what ``read`` gave."""
        return isolation.aborted_within(self, piece, offset, upper) if self.segments.with_aborted else []

    def check(self, piece: FileSlice, offset: int) -> None:
        """Check the CRCs of what ``read`` gave for ``offset``; CORRUPT_MESSAGE if the first batch's is wrong.

        A later batch that is damaged is cut off ``piece``.  For bytes that had to come from the disk: bytes in memory
        were checked when they were appended.  May be called in a thread.
        """
        lookup.check(self, piece, offset)

    def find_timestamp(self, timestamp: int) -> tuple[int, int, int] | None:
        """Timestamp, offset and leader epoch of the first record at or after ``timestamp``."""
        return lookup.run(self, lookup.find_timestamp(self, timestamp))

    async def find_timestamp_async(self, timestamp: int, workers: Workers) -> tuple[int, int, int] | None:
        """As ``find_timestamp``, decoding what is large or compressed in a thread."""
        return await lookup.run_async(self, lookup.find_timestamp(self, timestamp), workers)

    def max_timestamp(self) -> tuple[int, int, int] | None:
        """Timestamp, offset and leader epoch of the first record with the greatest timestamp there is."""
        return lookup.run(self, lookup.max_timestamp(self))

    async def max_timestamp_async(self, workers: Workers) -> tuple[int, int, int] | None:
        """As ``max_timestamp``, decoding what is large or compressed in a thread."""
        return await lookup.run_async(self, lookup.max_timestamp(self), workers)

    # Reaching the disk.

    @property
    def needs_flush(self) -> bool:
        """Whether flush.messages asks for a flush before the last append is acknowledged."""
        return self.end_offset - self.flusher.durable_offset >= self.config.flush_messages

    async def flush_async(self, workers: Workers) -> None:
        """Return when every batch appended before the call is on disk; one flush serves all who wait."""
        await self.flusher.commit(workers)

    def flush(self) -> None:
        """Bring everything to the disk, here and now, and move the recovery point."""
        self.flusher.flush()

    def close(self) -> None:
        """Flush, and let go of the files."""
        if self.seal():
            self.flush()
        self.release()

    def seal(self) -> bool:
        """Note the newest timestamp as the time index's last, as it is in a log at rest; whether to flush then."""
        self.settle()
        try:
            self._active.seal_times()
        except OSError as error:
            raise self.directory.fail(error) from error
        is_behind = bool(self.unflushed_batches) or self.recovery_point < self.end_offset
        return is_behind or self._active.times.is_pending

    def release(self) -> None:
        """Let go of the files."""
        for segment in self.segments:
            segment.release()

    def let_go(self, count: int) -> None:
        """Nobody is to read what was appended soon: of its last ``count`` bytes, what is on the disk may leave memory.

        Only the active segment is looked at: others are closed, and small if they were filled so fast.
        """
        segment = self.segments.active
        if segment.file is not None:
            segment.file.let_go(max(0, segment.size - count), count)

    # Cutting at either end.

    def truncate_to(self, offset: int) -> None:
        """Remove every batch with an offset at or after ``offset``."""
        self.settle()
        trimming.truncate_to(self, offset)

    def restart_at(self, offset: int) -> None:
        """Remove everything and begin again at ``offset``."""
        self.settle()
        trimming.restart_at(self, offset)

    def hold_back(self, high_watermark: int) -> None:
        """Find the transactions again that ended at or above ``high_watermark``, for readers of committed records."""
        trimming.hold_back(self, high_watermark)

    def advance_start(self, offset: int) -> None:
        """Let the log start at ``offset``; what lies before is no longer read, and its segments go in time."""
        trimming.advance_start(self, offset)

    def enforce_retention(self, now_ms: int, upper: int) -> int:
        """Remove segments that have had their time, none at or above ``upper``; how many bytes that freed."""
        return trimming.enforce_retention(self, now_ms, upper)

    def replace_segments(self, base_offset: int, replaced: Sequence[int]) -> None:
        """Put the cleaned segment of ``base_offset`` (see ``swap``) in the place of closed ones, by their bases."""
        trimming.replace_segments(self, base_offset, replaced)

    def delete(self) -> None:
        """Rename the folder out of the way, as Kafka does; what is in it is removed in time."""
        trimming.delete(self)

    def was_cut(self, end_offset: int) -> None:
        """The segments were changed under the log, which ends at ``end_offset`` now."""
        self._active = self.segments.active
        self._forget_recent()
        self.end_offset = end_offset
        self.flusher.note_cut(end_offset)
        self.directory.on_cut(self)
        if self.recovery_point > end_offset:
            self.recovery_point = end_offset
            self.directory.on_rollback(self.directory)
