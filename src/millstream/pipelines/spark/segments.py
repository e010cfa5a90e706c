"""A broker's log directory read in place, without asking the broker anything.

Nothing is recovered or changed: a log ends behind its last whole batch. What is committed is known from the files
alone: the newest snapshot of producers that the disk surely has tells which transactions were open, and what follows
it is walked batch by batch.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from millstream.client.partitions import READ_COMMITTED
from millstream.model.batch import BatchHeader
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import INTERNAL_TOPICS, TopicPartition
from millstream.model.records import ABORT, COMMIT, control_kind, decode_batch
from millstream.pipelines.spark.options import PATH, Selection, SourceOptions, refuse
from millstream.pipelines.spark.origin import Aborted
from millstream.pipelines.spark.planning import DataLost, Offsets
from millstream.pipelines.spark.task import Task
from millstream.storage.aborted_index import ABORTED_INDEX_SUFFIX, decode_entries
from millstream.storage.checkpoint import read_offsets
from millstream.storage.files import OsFile, OsFiles
from millstream.storage.producer_snapshot import SUFFIX as SNAPSHOT_SUFFIX
from millstream.storage.producer_snapshot import decode_snapshot
from millstream.storage.segment import LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, offset_name
from millstream.storage.walk import DamagedBatch, headers

_FOLDER = re.compile(r"(.+)-(\d+)")
_LOG_STARTS = "log-start-offset-checkpoint"
_RECOVERY_POINTS = "recovery-point-offset-checkpoint"
_INDEX_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
_NOTHING = -1


class LogFolder:
    """One partition's folder."""

    def __init__(self, path: str, partition: TopicPartition) -> None:
        self.partition = partition
        self._files = OsFiles()
        self._folder = f"{path}/{partition}"
        names = self._files.list(self._folder)
        #: The first offset of each segment, in order.
        self.bases = sorted(_number(name) for name in names if name.endswith(LOG_SUFFIX))
        self.snapshots = sorted(_number(name) for name in names if name.endswith(SNAPSHOT_SUFFIX))

    def open(self, base: int) -> OsFile:
        """A segment's file of batches."""
        return self._files.open(self._path(base, LOG_SUFFIX))

    def batches(self, offset: int) -> Iterator[tuple[OsFile, int, BatchHeader]]:
        """Every whole batch from the one with ``offset`` on, with its file and its place there."""
        for base in self.bases[self.segment_of(offset) :]:
            file = self.open(base)
            try:
                for position, header in headers(file, self.position_of(base, offset), file.size):
                    if header.last_offset >= offset:
                        yield file, position, header
            except DamagedBatch:
                return  # A batch that is still being written, or that a crash cut: the log ends before it.
            finally:
                file.close()

    def segment_of(self, offset: int) -> int:
        """The place in ``bases`` of the segment where ``offset`` is, or would be."""
        return max(bisect_right(self.bases, offset) - 1, 0)

    def position_of(self, base: int, offset: int) -> int:
        """Where a batch starts in the segment's file that is not behind ``offset``: by the index, as far as it goes."""
        entries = np.frombuffer(self._read(base, OFFSET_INDEX_SUFFIX)[: 1 << 31], _INDEX_ENTRY)
        entries = entries[entries["position"] > 0]  # Kafka lays out room for more entries than there are.
        at = int(np.searchsorted(entries["offset"].astype(np.int64), offset - base, side="right"))
        return int(entries["position"][at - 1]) if at else 0

    def end(self) -> int:
        """The offset behind the last whole batch."""
        end = self.bases[-1]
        for _, _, header in self.batches(self._last_indexed()):
            end = header.next_offset
        return end

    def _last_indexed(self) -> int:
        base = self.bases[-1]
        entries = np.frombuffer(self._read(base, OFFSET_INDEX_SUFFIX), _INDEX_ENTRY)
        entries = entries[entries["position"] > 0]
        return base + int(entries["offset"][-1]) if len(entries) else base

    def first_since(self, timestamp_ms: int) -> int:
        """The first record that is not older; -1 for none."""
        for number, base in enumerate(self.bases):
            is_closed = number + 1 < len(self.bases)
            times = np.frombuffer(self._read(base, TIME_INDEX_SUFFIX), _TIME_ENTRY)["timestamp"]
            if is_closed and len(times) and times.max() < timestamp_ms:
                continue
            for file, position, header in self.batches(base):
                if header.max_timestamp >= timestamp_ms and not header.is_control:
                    for record in decode_batch(file.read(position, header.size)):
                        if record.timestamp >= timestamp_ms:
                            return record.offset
            return _NOTHING
        return _NOTHING

    def transactions(self, recovery_point: int) -> "Transactions":
        """Which were aborted, and which are open."""
        known = [offset for offset in self.snapshots if self.bases[0] <= offset <= recovery_point]
        found, begin = Transactions(), self.bases[0]
        if known:
            begin = known[-1]
            for producer in decode_snapshot(self._files.read(self._path(begin, SNAPSHOT_SUFFIX))):
                if producer.txn_first_offset >= 0:
                    found.open[producer.producer_id] = producer.txn_first_offset
            for base in self.bases:
                for entry in decode_entries(self._read(base, ABORTED_INDEX_SUFFIX)) if base < begin else ():
                    if entry.last_offset < begin:
                        found.aborted.append(Aborted(entry.producer_id, entry.first_offset, entry.last_offset))
        for file, position, header in self.batches(begin):
            if header.is_control:
                for record in decode_batch(file.read(position, header.size)):
                    found.end(header, control_kind(record))
            elif header.is_transactional:
                found.open.setdefault(header.producer_id, header.base_offset)
        return found

    def _path(self, offset: int, suffix: str) -> str:
        return f"{self._folder}/{offset_name(offset)}{suffix}"

    def _read(self, base: int, suffix: str) -> bytes:
        """A file that may not be there, without an entry that is only half written."""
        try:
            data = self._files.read(self._path(base, suffix))
        except FileNotFoundError:
            return b""
        size = {OFFSET_INDEX_SUFFIX: _INDEX_ENTRY.itemsize, TIME_INDEX_SUFFIX: _TIME_ENTRY.itemsize}.get(suffix, 1)
        return data[: len(data) - len(data) % size]


def _number(name: str) -> int:
    return int(name.partition(".")[0])


@dataclass
class Transactions:
    """The fates of a log's transactions, as a walk finds them."""

    aborted: list[Aborted] = field(default_factory=list)
    open: dict[int, int] = field(default_factory=dict)

    def end(self, header: BatchHeader, kind: int) -> None:
        """A marker of this kind, at the header's place."""
        if kind in (ABORT, COMMIT):
            first = self.open.pop(header.producer_id, None)
            if kind == ABORT and first is not None:
                self.aborted.append(Aborted(header.producer_id, first, header.last_offset))


class DirectoryOrigin:
    """A log directory as the source of records."""

    def __init__(self, options: SourceOptions) -> None:
        self._path = options.path.removeprefix("file://").rstrip("/")
        self._is_committed = options.isolation == READ_COMMITTED
        self._files = OsFiles()

    def rest(self) -> None:
        """Files are there or they are not."""

    def close(self) -> None:
        """Nothing is kept open."""

    def partitions(self, selection: Selection, *, must_exist: bool) -> list[TopicPartition]:
        try:
            names = self._files.list(self._path)
        except OSError as error:
            refuse(PATH, self._path, f"is no log directory: {error.strerror}")
        found = [TopicPartition(match[1], int(match[2])) for match in map(_FOLDER.fullmatch, names) if match]
        found = sorted(tp for tp in found if LogFolder(self._path, tp).bases)
        topics = {tp.topic for tp in found}
        missing = [name for name in selection.topics if name not in topics]
        missing += [str(tp) for tp in selection.partitions if tp not in found]
        if missing and must_exist:
            selection.refuse(f"{PATH.name}={self._path} has no {', '.join(missing)}")
        if selection.pattern:
            return [tp for tp in found if tp.topic not in INTERNAL_TOPICS and selection.matches(tp.topic)]
        return [tp for tp in found if tp.topic in selection.topics or tp in selection.partitions]

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        starts = read_offsets(self._files, f"{self._path}/{_LOG_STARTS}")
        return {tp: max(LogFolder(self._path, tp).bases[0], starts.get(tp, 0)) for tp in partitions}

    def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        ends = {tp: LogFolder(self._path, tp).end() for tp in partitions}
        if self._is_committed:
            for tp, transactions in self._transactions(ends):
                ends[tp] = min([ends[tp], *transactions.open.values()])
        return ends

    def bounds(self, selection: Selection) -> tuple[Offsets, Offsets]:
        there = self.partitions(selection, must_exist=False)
        return self.earliest(there), self.latest(there)

    def by_time(self, timestamps_ms: Mapping[TopicPartition, int]) -> Offsets:
        earliest = self.earliest(timestamps_ms)
        found = {tp: LogFolder(self._path, tp).first_since(moment) for tp, moment in timestamps_ms.items()}
        return {tp: max(offset, earliest[tp]) for tp, offset in found.items() if offset != _NOTHING}

    def aborted(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Sequence[Aborted]]:
        if not self._is_committed:
            return {}
        return {tp: transactions.aborted for tp, transactions in self._transactions(partitions)}

    def _transactions(self, partitions: Iterable[TopicPartition]) -> Iterator[tuple[TopicPartition, Transactions]]:
        points = read_offsets(self._files, f"{self._path}/{_RECOVERY_POINTS}")
        for tp in list(partitions):
            yield tp, LogFolder(self._path, tp).transactions(points.get(tp, 0))


def read_from_segments(task: Task) -> Iterator[pa.RecordBatch]:
    """The records of the task's range, in order; what a log no longer has is an error, unless that is allowed."""
    options, tp = task.options, task.range.partition
    folder = LogFolder(options.path.removeprefix("file://").rstrip("/"), tp)
    decoder = task.decoder()
    if decoder.position < folder.bases[0]:
        if options.fails_on_data_loss:
            raise DataLost(f"partition {tp} no longer has offset {decoder.position}")
        decoder.skip_to(folder.bases[0])
    first = folder.segment_of(decoder.position)
    for number, base in enumerate(folder.bases[first:], first):
        if decoder.is_done:
            return
        file = folder.open(base)
        try:
            at, step = folder.position_of(base, decoder.position), options.partition_bytes_max
            while at < file.size and not decoder.is_done:
                piece = file.read(at, min(step, file.size - at))
                aborted = [each[:2] for each in task.aborted if each.last_offset >= decoder.position]
                places = decoder.survey(piece, aborted)
                if not decoder.surveyed_bytes:
                    if at + step >= file.size:
                        raise ProtocolError(
                            ErrorCode.CORRUPT_MESSAGE, f"{file.path} has no whole batch at {at}, before its end"
                        )
                    step *= 2
                    continue
                at += decoder.surveyed_bytes
                table = decoder.decode(piece, places)
                if table is not None:
                    yield table
        finally:
            file.close()
        if number + 1 < len(folder.bases):
            # Compaction may have taken what lay between.
            decoder.position = max(decoder.position, min(folder.bases[number + 1], task.range.stop))
