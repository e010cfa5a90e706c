"""A partition's log: segments in a folder, appended to at the end and read from anywhere.

Called on the event loop only; ``FlushPlan.run`` alone may run in a thread, while appends go on.
"""

import logging
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from millstream.config.topic import TopicConfig
from millstream.model.batch import NO_SEQUENCE, NO_TIMESTAMP, BatchHeader, stamp, stamp_append_time
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import ZERO_UUID, TopicPartition, Uuid
from millstream.model.slices import FileSlice
from millstream.storage.checkpoint import LEADER_EPOCHS
from millstream.storage.directory import LogDirectory
from millstream.storage.leader_epochs import LeaderEpochs
from millstream.storage.producer_state import ProducerStates, RememberedBatch, end_marker
from millstream.storage.segment import RELATIVE_OFFSET_MAX, Segment
from millstream.storage.walk import DamagedBatch

#: Places of this many recent batches at least are at hand, so that reads at the tail touch no index.
RECENT_BATCHES = 1024
LOG_APPEND_TIME_TYPE = "LogAppendTime"

_log = logging.getLogger(__name__)


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
        "_bases",
        "_recent_offsets",
        "_recent_positions",
        "config",
        "directory",
        "end_offset",
        "epochs",
        "folder",
        "producers",
        "recovery_point",
        "segments",
        "start_offset",
        "topic_id",
        "topic_partition",
        "unflushed_batches",
        "unflushed_since_ms",
    )

    def __init__(
        self,
        directory: LogDirectory,
        topic_partition: TopicPartition,
        config: TopicConfig,
        *,
        topic_id: Uuid = ZERO_UUID,
        folder: str = "",
    ) -> None:
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = config
        self.folder = folder or f"{directory.path}/{topic_partition}"
        self.start_offset = 0
        #: The next offset to be written.
        self.end_offset = 0
        #: All before this offset is on disk, whatever happens to the machine.
        self.recovery_point = 0
        self.epochs = LeaderEpochs(directory.files, f"{self.folder}/{LEADER_EPOCHS}", self)
        self.producers = ProducerStates()
        self.segments: list[Segment] = []
        self._bases: list[int] = []
        self.unflushed_batches = 0
        self.unflushed_since_ms = 0
        self._recent_offsets = array("q")
        self._recent_positions = array("q")

    @property
    def is_offline(self) -> bool:
        return self.directory.failure is not None

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def active(self) -> Segment:
        """The segment that is written to."""
        return self._active

    def create(self) -> None:
        """Make the folder and its first segment."""
        self.directory.files.make_folder(self.folder)
        segment = self._new_segment(self.start_offset)
        segment.create()
        self.adopt([segment], self.start_offset)

    def adopt(self, segments: list[Segment], end_offset: int) -> None:
        """Stand on ``segments``, of which there is at least one; the last is the active one."""
        self.segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self._active = segments[-1]
        self.end_offset = end_offset
        self._forget_recent()

    def _new_segment(self, base_offset: int) -> Segment:
        directory = self.directory
        segment = Segment(directory.open_files, self.folder, base_offset, 0, directory.clock.now_ms())
        jitter_ms = min(self.config.segment_jitter_ms, self.config.segment_ms)
        if jitter_ms > 0:
            segment.roll_jitter_ms = directory.random.randrange(jitter_ms)
        return segment

    def _forget_recent(self) -> None:
        self._recent_offsets = array("q")
        self._recent_positions = array("q")

    # Appending.

    def append(
        self,
        records: memoryview,
        batches: Sequence[tuple[int, BatchHeader]],
        leader_epoch: int,
        now_ms: int,
        *,
        is_client: bool = True,
    ) -> AppendOutcome:
        """Append batches whose CRCs were checked, stamped with their place; all of them, or none and a refusal.

        A repeat of a batch that is in the log is answered with that batch's place, and nothing is appended.
        ``is_client`` is False for the broker's own coordinators, who write markers and number no records.
        """
        if self.directory.failure is not None:
            raise self.directory.refusal()
        config = self.config
        repeated = self._check(records, batches, config, is_client)
        append_time_ms = now_ms if config.message_timestamp_type == LOG_APPEND_TIME_TYPE else NO_TIMESTAMP
        if repeated is not None:
            append_time_ms = repeated.timestamp if append_time_ms >= 0 else NO_TIMESTAMP
            return AppendOutcome(
                repeated.first_offset, repeated.last_offset, append_time_ms, self.start_offset, is_duplicate=True
            )
        first_offset = offset = self.end_offset
        max_timestamp = NO_TIMESTAMP
        for at, header in batches:
            stamp(records, at, offset, leader_epoch)
            if append_time_ms >= 0:
                stamp_append_time(records, at, header, append_time_ms)
            offset += header.last_offset_delta + 1
            if header.max_timestamp > max_timestamp:
                max_timestamp = header.max_timestamp
        if append_time_ms >= 0:
            max_timestamp = append_time_ms
        if leader_epoch > self.epochs.latest:
            self.epochs.assign(leader_epoch, first_offset)
        self._write(records, first_offset, offset - 1, max_timestamp, now_ms)
        self._note(records, batches, first_offset, append_time_ms, now_ms)
        return AppendOutcome(first_offset, offset - 1, append_time_ms, self.start_offset)

    def _check(
        self, records: memoryview, batches: Sequence[tuple[int, BatchHeader]], config: TopicConfig, is_client: bool
    ) -> RememberedBatch | None:
        """Refuse what may not be appended; the batch in the log that the first batch repeats, if it does."""
        producers = self.producers
        for at, header in batches:
            if header.length + 12 > config.max_message_bytes:
                raise ProtocolError(
                    ErrorCode.MESSAGE_TOO_LARGE,
                    f"a batch of {header.size} bytes, max.message.bytes is {config.max_message_bytes}",
                )
            if header.producer_id < 0:
                continue
            if header.is_control:
                if is_client:
                    raise ProtocolError(ErrorCode.INVALID_RECORD, "clients do not write control batches")
                marker = end_marker(records, at)
                if marker is not None:
                    producers.check_marker(header, marker)
                continue
            if is_client and header.base_sequence == NO_SEQUENCE:
                raise ProtocolError(ErrorCode.INVALID_RECORD, "a batch with a producer id has no sequence number")
            if len(batches) > 1 and producers is self.producers:
                producers = producers.draft()
            repeated = producers.check(header)
            if repeated is not None:
                return repeated
            if producers is not self.producers:
                producers.advance(header, 0, header.max_timestamp)
        if len(records) > config.segment_bytes:
            raise ProtocolError(
                ErrorCode.RECORD_LIST_TOO_LARGE, f"{len(records)} bytes, segment.bytes is {config.segment_bytes}"
            )
        return None

    def append_as_follower(self, records: memoryview, batches: Sequence[tuple[int, BatchHeader]] | None = None) -> None:
        raise NotImplementedError

    def _write(self, records: memoryview, first_offset: int, last_offset: int, max_timestamp: int, now_ms: int) -> None:
        """Write to the active segment, or to a new one when that is full, old or cannot number the offsets."""
        segment, config = self._active, self.config
        size = segment.size
        try:
            if size and (
                size + len(records) > config.segment_bytes
                or len(segment.offsets) * 8 + 8 > config.segment_index_bytes
                or last_offset - segment.base_offset > RELATIVE_OFFSET_MAX
                or (
                    max_timestamp - segment.first_timestamp
                    if segment.first_timestamp >= 0
                    else now_ms - segment.created_ms
                )
                > config.segment_ms - segment.roll_jitter_ms
            ):
                segment = self._roll(first_offset)
            file = segment.file
            if file is None:
                file = segment.writer()
            file.append(records)
        except OSError as error:
            raise self.directory.fail(error) from error

    def _note(
        self,
        records: memoryview,
        batches: Sequence[tuple[int, BatchHeader]],
        first_offset: int,
        append_time_ms: int,
        now_ms: int,
    ) -> None:
        """Take batches that were written into index, producer state and the list of recent ones."""
        segment = self._active
        position, offset, interval = segment.size, first_offset, self.config.index_interval_bytes
        if not self.unflushed_batches:
            self.unflushed_since_ms = now_ms
        for at, header in batches:
            size = header.length + 12
            last_offset = offset + header.last_offset_delta
            timestamp = append_time_ms if append_time_ms >= 0 else header.max_timestamp
            segment.note_batch(position, size, last_offset, timestamp, interval)
            self._recent_offsets.append(offset)
            self._recent_positions.append(position)
            if header.producer_id >= 0:
                self._note_producer(records, at, header, offset, timestamp)
            position += size
            offset = last_offset + 1
            self.unflushed_batches += 1
        if len(self._recent_offsets) > 2 * RECENT_BATCHES:
            del self._recent_offsets[:-RECENT_BATCHES], self._recent_positions[:-RECENT_BATCHES]
        segment.size = position
        self.end_offset = offset

    def _note_producer(self, records: memoryview, at: int, header: BatchHeader, offset: int, timestamp: int) -> None:
        if not header.is_control:
            self.producers.advance(header, offset, timestamp)
            return
        marker = end_marker(records, at)
        if marker is not None:
            self.producers.complete(header, marker, offset)

    def _roll(self, base_offset: int) -> Segment:
        closed = self._active
        closed.seal_times()
        closed.flush_indexes()
        segment = self._new_segment(base_offset)
        segment.create()
        self.segments.append(segment)
        self._bases.append(base_offset)
        self._active = segment
        self._forget_recent()
        return segment

    # Reading.

    def read(self, offset: int, bytes_max: int, upper: int) -> FileSlice | None:
        """Batches from the one with ``offset`` on and below ``upper``: at least one whole, the last one maybe cut.

        None when there is nothing there yet; OFFSET_OUT_OF_RANGE outside the log.
        """
        if self.directory.failure is not None:
            raise self.directory.refusal()
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
        if upper >= self.end_offset:
            end = segment.size
        else:
            end = positions[bisect_right(recent, upper, at) - 1]
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
            for segment in self.segments[max(bisect_right(self._bases, offset) - 1, 0) :]:
                place = segment.find(offset)
                if place is not None:
                    return self._slice(segment, place.position, place.size, bytes_max, upper)
        except OSError as error:
            raise self.directory.fail(error) from error
        except DamagedBatch as damage:
            raise ProtocolError(ErrorCode.CORRUPT_MESSAGE, str(damage)) from damage
        return None

    def _slice(self, segment: Segment, position: int, first_bytes: int, bytes_max: int, upper: int) -> FileSlice | None:
        end = segment.size
        if upper < self.end_offset:
            bound = segment.find(upper)
            if bound is not None:
                end = bound.position
        length = min(end - position, max(bytes_max, first_bytes))
        return FileSlice(segment.reader(), position, length) if length > 0 else None
