"""Compaction against a plain model of what must stay, and against a machine that stops at any step."""

import contextlib
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millstream.model.batch import DELETE_HORIZON, BatchHeader
from millstream.model.compression import CODECS
from millstream.model.records import ABORT, COMMIT, Record, encode_batch, encode_marker
from millstream.storage.compaction_job import ProducerEnd, compact
from millstream.storage.swap import finish_swaps, swap_in
from tests.simulation.files import MemoryFiles
from tests.unit.storage.compaction_logs import (
    FOLDER,
    NOW,
    check_indexes,
    job_for,
    read_batches,
    run,
    spans,
    write_log,
)

RETENTION_MS = 1_000
Batches = list[tuple[BatchHeader, list[Record]]]

#: Few keys, so that they supersede each other; some too long to be their own identity.
keys = st.sampled_from([None, b"", *(b"%d" % at for at in range(6)), b"long" * 5, b"long" * 6])
values = st.none() | st.binary(max_size=8)
pairs = st.lists(st.tuples(keys, values, st.integers(0, 50)), min_size=1, max_size=6)


@dataclass(frozen=True)
class Write:
    """A batch of some producer: inside its transaction when it has one open."""

    pairs: list[tuple[bytes | None, bytes | None, int]]
    producer_id: int
    compression: int
    in_transaction: bool


@dataclass(frozen=True)
class End:
    """The end of a producer's transaction."""

    producer_id: int
    is_commit: bool


@dataclass(frozen=True)
class Roll:
    """A new segment."""


writes = st.builds(Write, pairs, st.sampled_from([-1, -1, 1, 2]), st.sampled_from(list(CODECS)), st.booleans())
ends = st.builds(End, st.integers(1, 2), st.booleans())
histories = st.lists(writes | writes | ends | st.just(Roll()), min_size=1, max_size=25).filter(
    lambda steps: any(not isinstance(step, Roll) for step in steps)
)


@dataclass
class History:
    """A log written step by step, and what its writers know of it."""

    segments: list[list[bytearray]] = field(default_factory=lambda: [[]])
    offset: int = 0
    sequences: dict[int, int] = field(default_factory=dict)
    open_transactions: set[int] = field(default_factory=set)
    last_data: dict[int, int] = field(default_factory=dict)

    def take(self, step: Write | End | Roll) -> None:
        if isinstance(step, Roll):
            if self.segments[-1]:
                self.segments.append([])
        elif isinstance(step, End):
            self.end(step.producer_id, step.is_commit)
        else:
            self.write(step)

    def write(self, step: Write) -> None:
        producer_id, sequence = step.producer_id, self.sequences.get(step.producer_id, 0)
        transactional = producer_id >= 0 and (step.in_transaction or producer_id in self.open_transactions)
        records = [Record(0, NOW - 1_000 + delay, key, value) for key, value, delay in step.pairs]
        self.segments[-1].append(
            encode_batch(
                records,
                compression=step.compression,
                producer_id=producer_id,
                producer_epoch=0 if producer_id >= 0 else -1,
                base_sequence=sequence if producer_id >= 0 else -1,
                transactional=transactional,
            )
        )
        self.offset += len(records)
        if producer_id >= 0:
            self.sequences[producer_id] = sequence + len(records)
            self.last_data[producer_id] = self.offset - 1
        if transactional:
            self.open_transactions.add(producer_id)

    def end(self, producer_id: int, is_commit: bool) -> None:
        self.open_transactions.discard(producer_id)
        kind = COMMIT if is_commit else ABORT
        self.segments[-1].append(encode_marker(kind, producer_id=producer_id, producer_epoch=0, timestamp=NOW - 500))
        self.offset += 1

    @property
    def producers(self) -> dict[int, ProducerEnd]:
        return {producer_id: ProducerEnd(0, offset) for producer_id, offset in self.last_data.items()}


def history_of(steps: list[Write | End | Roll]) -> History:
    """The steps, every transaction ended, and an active segment behind them that nothing may touch."""
    history = History()
    for step in steps:
        history.take(step)
    for producer_id in sorted(history.open_transactions):
        history.end(producer_id, is_commit=producer_id == 1)
    history.take(Roll())
    history.segments[-1].append(encode_batch([Record(0, NOW, b"0", b"active")]))
    return history


def markers(batches: Batches) -> dict[int, list[tuple[int, bool]]]:
    found: dict[int, list[tuple[int, bool]]] = {}
    for header, records in batches:
        if header.is_control and records:
            is_abort = records[0].key == b"\0\0\0\0"
            found.setdefault(header.producer_id, []).append((header.base_offset, is_abort))
    return found


def is_aborted(header: BatchHeader, marked: dict[int, list[tuple[int, bool]]]) -> bool:
    if not header.is_transactional:
        return False
    return next((gone for offset, gone in marked.get(header.producer_id, []) if offset > header.base_offset), False)


def model(batches: Batches, dirty: int, end: int, now_ms: int) -> list[Record]:
    """Data records that must be left, by the book: a dictionary of last offsets and one look at each record."""
    marked = markers(batches)
    last: dict[bytes | None, int] = {}
    for header, records in batches:
        if header.is_control or (header.base_offset >= dirty and is_aborted(header, marked)):
            continue
        for record in records:
            if dirty <= record.offset < end:
                last[record.key] = record.offset
    left = []
    for header, records in batches:
        if header.is_control:
            continue
        gone = dirty <= header.base_offset < end and is_aborted(header, marked)
        is_over = bool(header.attributes & DELETE_HORIZON) and header.base_timestamp <= now_ms
        for record in records:
            if header.base_offset >= end:
                left.append(record)
            elif gone or record.key is None or record.offset < last.get(record.key, -1):
                continue
            elif record.value is not None or not is_over:
                left.append(record)
    return left


def data(batches: Batches) -> list[Record]:
    return [record for header, records in batches if not header.is_control for record in records]


@given(histories, st.sampled_from([200, 1_000, 1 << 20]), st.sampled_from([1, 200, 1 << 20]))
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_what_is_left_is_what_the_model_says(
    steps: list[Write | End | Roll], segment_bytes: int, chunk_bytes: int
) -> None:
    """Three passes: everything dirty, nothing new, and after the tombstones' time."""
    history = history_of(steps)
    files = MemoryFiles(Random(0))
    write_log(files, history.segments)
    dirty = 0
    for now_ms in (NOW, NOW + RETENTION_MS - 1, NOW + RETENTION_MS):
        before = read_batches(files)
        expected = model(before, dirty, history.offset, now_ms)
        job = job_for(
            files,
            history.offset,
            first_dirty_offset=dirty,
            now_ms=now_ms,
            producers=history.producers,
            segment_bytes=segment_bytes,
            chunk_bytes=chunk_bytes,
        )
        result = run(job)
        after = read_batches(files)
        assert data(after) == expected
        assert result.cleaned_to == history.offset
        assert {header.base_offset for header, _ in after} <= {header.base_offset for header, _ in before}
        assert last_batches(after) == last_batches(before)
        assert after[-1] == before[-1]
        dirty = history.offset


def last_batches(batches: Batches) -> dict[int, tuple[int, int, int]]:
    """What each producer's state is rebuilt from: its last data batch's sequence, epoch and offset."""
    return {
        header.producer_id: (header.last_sequence, header.producer_epoch, header.last_offset)
        for header, _ in batches
        if header.producer_id >= 0 and not header.is_control
    }


@given(histories)
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_a_second_pass_over_a_clean_log_changes_nothing(steps: list[Write | End | Roll]) -> None:
    history = history_of(steps)
    files = MemoryFiles(Random(0))
    write_log(files, history.segments)
    for _ in range(3):  # A marker whose data went is seen to be alone one pass later, and marked so.
        run(job_for(files, history.offset, producers=history.producers))
    before = read_batches(files)
    names = files.list(FOLDER)
    result = run(job_for(files, history.offset, producers=history.producers))
    assert read_batches(files) == before
    assert files.list(FOLDER) == names
    assert result.groups == []


@given(histories, st.integers(4, 40))
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_little_memory_takes_more_runs_to_the_same_end(steps: list[Write | End | Roll], keys_max: int) -> None:
    history = history_of(steps)
    files, roomy = MemoryFiles(Random(0)), MemoryFiles(Random(0))
    write_log(files, history.segments)
    write_log(roomy, history.segments)
    run(job_for(roomy, history.offset))
    dirty = 0
    while dirty < history.offset:
        job = job_for(files, history.offset, first_dirty_offset=dirty, dedupe_bytes=(6 + keys_max) * 32)
        result = run(job)
        assert result.cleaned_to > dirty
        dirty = result.cleaned_to
    assert data(read_batches(files)) == data(read_batches(roomy))


class Stopped(BaseException):
    """The machine stopped."""


class StoppingFile:
    """A file on a disk that stops."""

    def __init__(self, disk: "StoppingFiles", file: Any) -> None:
        self._disk = disk
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return self._disk.counted(name, getattr(self._file, name))


class StoppingFiles:
    """A disk that carries out so many changes, and then nothing any more."""

    CHANGES = frozenset({"append", "truncate", "flush", "rename", "remove", "sync_folder"})

    def __init__(self, files: MemoryFiles, changes_max: int) -> None:
        self._files = files
        self._changes_max = changes_max
        self.changes = 0

    def open(self, path: str, *, writable: bool = False, create: bool = False) -> Any:
        return StoppingFile(self, self.counted("open", self._files.open)(path, writable=writable, create=create))

    def __getattr__(self, name: str) -> Any:
        return self.counted(name, getattr(self._files, name))

    def counted(self, name: str, found: Any) -> Any:
        if not callable(found):
            return found

        def call(*args: object, **more: object) -> Any:
            if self.changes >= self._changes_max:
                raise Stopped
            self.changes += name in self.CHANGES
            return found(*args, **more)

        return call


def carry_out(files: Any, history: History) -> None:
    job = job_for(files, history.offset, producers=history.producers, segment_bytes=600)
    for group in compact(job).groups:
        for path in swap_in(files, FOLDER, group.base_offset, group.replaced):
            files.remove(path)


@given(histories, st.data())
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_a_stop_at_any_step_loses_nothing(steps: list[Write | End | Roll], draw: st.DataObject) -> None:
    """The process ends, or the power goes, after the k-th change; then the log is opened and compacted again."""
    history = history_of(steps)
    twin = MemoryFiles(Random(0))
    write_log(twin, history.segments)
    counting = StoppingFiles(twin, 1 << 30)
    carry_out(counting, history)
    stop_after = draw.draw(st.integers(0, counting.changes - 1), label="stop after")
    files = MemoryFiles(Random(draw.draw(st.integers(0, 1_000), label="seed")))
    write_log(files, history.segments)
    original = read_batches(files)
    expected = model(original, 0, history.offset, NOW)
    with pytest.raises(Stopped):
        carry_out(StoppingFiles(files, stop_after), history)
    if draw.draw(st.booleans(), label="power lost"):
        files.crash()
    else:
        files.kill()
    finish_swaps(files, FOLDER)
    check_whole(files, original, expected)
    run(job_for(files, history.offset, producers=history.producers, segment_bytes=600))
    assert data(read_batches(files)) == expected


def test_every_single_step_may_be_the_last() -> None:
    """One log with something of everything, stopped after each change in turn, by a kill and by a power cut."""
    history = history_of(
        [
            Write([(b"a", b"1", 0), (b"b", b"1", 1)], 1, 0, in_transaction=True),
            End(1, is_commit=True),
            Roll(),
            Write([(b"a", b"2", 0), (b"c", None, 1)], -1, 4, in_transaction=False),
            Roll(),
            Write([(b"a", b"3" * 300, 0), (b"c", b"4" * 300, 1)], 2, 0, in_transaction=True),
            End(2, is_commit=False),
            Roll(),
            Write([(b"b", b"5", 0), (b"d", b"6", 1)], -1, 1, in_transaction=False),
        ]
    )
    stop_after, is_done = 0, False
    while not is_done:
        for is_power_lost in (False, True):
            files = MemoryFiles(Random(stop_after))
            write_log(files, history.segments)
            original = read_batches(files)
            try:
                carry_out(StoppingFiles(files, stop_after), history)
                is_done = True
            except Stopped:
                (files.crash if is_power_lost else files.kill)()
            finish_swaps(files, FOLDER)
            check_whole(files, original, model(original, 0, history.offset, NOW))
        stop_after += 1
    assert stop_after > 20


def check_whole(files: MemoryFiles, original: Batches, expected: list[Record]) -> None:
    """The log is readable, each segment has its own indexes, nothing that must be there is missing, nothing is new."""
    names = files.list(FOLDER)
    assert not [name for name in names if name.endswith((".cleaned", ".swap"))]
    check_indexes(files, [span.base_offset for span in spans(files)])
    left = data(read_batches(files))
    wanted = {record.offset for record in expected}
    assert [record for record in left if record.offset in wanted] == expected
    assert set(left) <= set(data(original))
    finish_swaps(files, FOLDER)
    assert files.list(FOLDER) == names


@given(histories, st.data())
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_a_stop_while_a_stop_is_mended_loses_nothing(steps: list[Write | End | Roll], draw: st.DataObject) -> None:
    history = history_of(steps)
    files = MemoryFiles(Random(draw.draw(st.integers(0, 1_000), label="seed")))
    write_log(files, history.segments)
    original = read_batches(files)
    expected = model(original, 0, history.offset, NOW)
    for label in ("first", "second", "third"):
        with contextlib.suppress(Stopped):
            disk: Any = StoppingFiles(files, draw.draw(st.integers(0, 40), label=f"{label} stop after"))
            finish_swaps(disk, FOLDER)
            carry_out(disk, history)
        if draw.draw(st.booleans(), label="power lost"):
            files.crash()
        else:
            files.kill()
    finish_swaps(files, FOLDER)
    check_whole(files, original, expected)
