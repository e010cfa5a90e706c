"""Transactions in a log against a list of what was written: whatever befalls the log, the two tell the same story.

The story is told as a consumer hears it: it reads below the last stable offset and leaves out what it is told was
aborted.  Told exactly, as long as nothing was removed: open transactions, the index of aborted ones, and repeats.
"""

import asyncio
import random
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from millstream.config.broker import BrokerConfig
from millstream.model.batch import HEADER_BYTES, BatchHeader, header_at
from millstream.model.records import ABORT, COMMIT, Record, decode_batch, encode_batch, encode_marker
from millstream.model.slices import FileSlice
from millstream.storage.aborted_index import AbortedTransaction
from millstream.storage.cleaner import Cleaner
from millstream.storage.log import Log
from millstream.storage.manager import Logs
from tests.simulation.files import MemoryFiles
from tests.unit.storage.ground import NOW_MS, TP, Here, SetClock, append, append_marker, made, open_logs

SETTINGS: dict[str, Any] = {
    "segment_bytes": 700,
    "index_interval_bytes": 100,
    "cleanup_compact": True,
    "cleanup_delete": True,
    "min_cleanable_dirty_ratio": 0.0,
    "delete_retention_ms": 0,
}
producers = st.integers(1, 3)
keys = st.sampled_from((b"a", b"b"))
#: How a transaction ends: by which marker, and whether that is an epoch above it (transaction version 2).
ENDS = {
    "abort": (ABORT, False),
    "abort, bumped": (ABORT, True),
    "commit": (COMMIT, False),
    "commit, bumped": (COMMIT, True),
}
acts = st.sampled_from(("begin", "begin", "begin", "write", *ENDS))


@dataclass(frozen=True)
class Written:
    """A batch as it was appended; ``kind`` is None for data."""

    first_offset: int
    last_offset: int
    producer_id: int
    epoch: int
    sequence: int
    key: bytes
    is_transactional: bool
    kind: int | None = None


class Story:
    """What the batches of a log mean, read from first to last."""

    def __init__(self, batches: list[Written]) -> None:
        self.open: dict[int, int] = {}
        self.aborted: list[AbortedTransaction] = []
        self.committed: list[Written] = []
        undecided: dict[int, list[Written]] = {}
        for batch in batches:
            if batch.kind is not None:
                first = self.open.pop(batch.producer_id, None)
                mine = undecided.pop(batch.producer_id, [])
                if first is not None and batch.kind == ABORT:
                    stable = min(self.open.values(), default=batch.last_offset + 1)
                    self.aborted.append(AbortedTransaction(batch.producer_id, first, batch.last_offset, stable))
                elif batch.kind == COMMIT:
                    self.committed += mine
            elif batch.is_transactional:
                self.open.setdefault(batch.producer_id, batch.first_offset)
                undecided.setdefault(batch.producer_id, []).append(batch)
            else:
                self.committed.append(batch)


class TransactionsInALog(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = SetClock()
        self.batches: list[Written] = []
        self.start = self.end = 0
        self.epochs = dict.fromkeys((1, 2, 3), 0)
        self.sequences = dict.fromkeys((1, 2, 3), 0)
        #: Each producer's batches that a repeat must be recognised of.
        self.repeatable: dict[int, list[Written]] = {}
        self.compacted_to = 0
        #: What lay before the start may be forgotten by a cut after that.
        self.is_exact = True

    @initialize(seed=st.integers(0, 2**16))
    def open(self, seed: int) -> None:
        self.files = MemoryFiles(random.Random(seed), self.clock)
        self.load()

    def load(self) -> None:
        self.logs: Logs = open_logs(self.files, "/data", clock=self.clock, **SETTINGS)
        made(self.logs, **SETTINGS)
        config = BrokerConfig.load()
        self.cleaner = Cleaner(
            self.logs, Here(), self.clock, random.Random(0), lambda: config, lambda _: self.stable_offset
        )

    @property
    def log(self) -> Log:
        log = self.logs.get(TP)
        assert log is not None
        return log

    @property
    def stable_offset(self) -> int:
        unstable = self.log.producers.first_unstable_offset(self.log.end_offset)
        return self.log.end_offset if unstable is None else max(unstable, self.log.start_offset)

    # What is written.

    @rule(steps=st.lists(st.tuples(producers, acts, st.integers(1, 2), keys), min_size=1, max_size=10))
    def work(self, steps: list[tuple[int, str, int, bytes]]) -> None:
        for producer_id, act, count, key in steps:
            if act in ENDS:
                self.end_transaction(producer_id, *ENDS[act])
            else:
                self.write(producer_id, count, key, act == "begin")

    def write(self, producer_id: int, count: int, key: bytes, in_transaction: bool) -> None:
        is_transactional = in_transaction or producer_id in Story(self.batches).open
        sequence, epoch = self.sequences[producer_id], self.epochs[producer_id]
        batch = Written(self.end, self.end + count - 1, producer_id, epoch, sequence, key, is_transactional)
        outcome = append(self.log, encoded(batch))
        assert outcome[:2] == (batch.first_offset, batch.last_offset)
        assert not outcome.is_duplicate
        self.sequences[producer_id] += count
        self.note(batch)
        self.repeatable[producer_id] = [*self.repeatable.get(producer_id, ()), batch][-5:]

    def end_transaction(self, producer_id: int, kind: int, is_bumped: bool) -> None:
        if is_bumped:
            self.enter_epoch(producer_id)
        epoch = self.epochs[producer_id]
        marker = encode_marker(kind, producer_id=producer_id, producer_epoch=epoch, timestamp=NOW_MS)
        assert append_marker(self.log, marker).first_offset == self.end
        self.note(Written(self.end, self.end, producer_id, epoch, -1, b"", True, kind))

    def note(self, batch: Written) -> None:
        self.batches.append(batch)
        self.end = batch.last_offset + 1

    def enter_epoch(self, producer_id: int) -> None:
        self.epochs[producer_id] += 1
        self.sequences[producer_id] = 0
        self.repeatable.pop(producer_id, None)

    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        known = [batch for batches in self.repeatable.values() for batch in batches if batch.first_offset >= self.start]
        if known:
            batch = data.draw(st.sampled_from(known))
            outcome = append(self.log, encoded(batch))
            assert (outcome.first_offset, outcome.is_duplicate) == (batch.first_offset, True)

    # What befalls the log.

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW_MS)

    @rule()
    def flush(self) -> None:
        asyncio.run(self.logs.flush_due(self.clock.ms + 3_600_000, Here(), Here()))

    @rule()
    def reopen(self) -> None:
        self.logs.close()
        self.load()

    @rule()
    def kill(self) -> None:
        self.files.kill()
        self.load()
        self.log.advance_start(self.start)

    @rule()
    def lose_power(self) -> None:
        durable = self.log.recovery_point
        self.files.crash()
        self.load()
        assert self.log.end_offset >= durable
        self.log.advance_start(min(self.start, self.log.end_offset))
        self.start = self.log.start_offset
        self.forget_from(self.log.end_offset)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        self.log.truncate_to(data.draw(st.integers(max(self.start, self.compacted_to), self.end), label="offset"))
        self.forget_from(self.log.end_offset)
        self.start = self.log.start_offset
        self.log.flush()

    def forget_from(self, offset: int) -> None:
        if offset < self.end:
            self.batches = [batch for batch in self.batches if batch.last_offset < offset]
            self.end = offset
            self.is_exact = self.is_exact and self.start == 0
            for producer_id in self.epochs:
                self.enter_epoch(producer_id)

    @rule(data=st.data())
    def retain(self, data: st.DataObject) -> None:
        """Once what is known of producers is on disk, as it is soon after a segment is closed."""
        self.flush()
        self.log.advance_start(data.draw(st.integers(self.start, self.end), label="offset"))
        self.start = self.log.start_offset
        self.log.enforce_retention(NOW_MS, self.log.end_offset)

    @rule()
    def compact(self) -> None:
        self.log.roll(NOW_MS)
        self.log.flush()
        if asyncio.run(self.cleaner.clean()):
            assert not self.cleaner.uncleanable
            self.compacted_to = max(self.compacted_to, self.log.segments.active.base_offset)
            self.repeatable = {producer_id: batches[-1:] for producer_id, batches in self.repeatable.items()}

    @rule()
    def expire(self) -> None:
        """All are silent for long; those in a transaction are remembered all the same."""
        self.log.producers.expire(NOW_MS + 1_000_000, 1)
        open_now = Story(self.batches).open
        for producer_id in self.epochs:
            if producer_id not in open_now:
                self.enter_epoch(producer_id)
        assert {producer.producer_id for producer in self.log.producers} >= set(open_now) or not self.is_exact

    # What must hold.

    @invariant()
    def bounds_agree(self) -> None:
        if hasattr(self, "logs"):
            story = Story(self.batches)
            assert (self.log.start_offset, self.log.end_offset) == (self.start, self.end)
            exact = max(min(story.open.values(), default=self.log.end_offset), self.start)
            if self.is_exact:
                assert self.stable_offset == exact
            assert self.start <= exact <= self.stable_offset <= self.log.end_offset

    @invariant()
    @precondition(lambda self: self.is_exact and not self.compacted_to)
    def index_agrees(self) -> None:
        if hasattr(self, "logs"):
            known = [entry for segment in self.log.segments for entry in segment.aborted or ()]
            base = self.log.segments[0].base_offset
            assert known == [entry for entry in Story(self.batches).aborted if entry.last_offset >= base]

    @invariant()
    def is_told_alike(self) -> None:
        if hasattr(self, "logs"):
            for bytes_max in (1, 300, 100_000):
                self.consume(bytes_max)

    def consume(self, bytes_max: int) -> None:
        """Read all as a consumer of committed records does."""
        upper, offset, shown = self.stable_offset, self.log.start_offset, set()
        while (piece := self.log.read(offset, bytes_max, upper)) is not None:
            told = sorted(
                (each.first_offset, each.producer_id) for each in self.log.aborted_within(piece, offset, upper)
            )
            batches = whole_batches(piece)
            shown |= {each for each in committed(batches, told) if each >= self.start}
            offset = batches[-1][0].next_offset
        story = Story(self.batches)
        wanted = {
            offset: batch.key
            for batch in story.committed
            for offset in range(batch.first_offset, batch.last_offset + 1)
            if self.start <= offset < upper
        }
        assert shown <= set(wanted)
        needed = {offset for offset in wanted if offset >= self.compacted_to}
        needed |= {max(offset for offset in wanted if wanted[offset] == key) for key in set(wanted.values())}
        assert needed <= shown


def encoded(batch: Written) -> bytearray:
    count = batch.last_offset - batch.first_offset + 1
    return encode_batch(
        [Record(timestamp=NOW_MS, key=batch.key, value=bytes(20)) for _ in range(count)],
        producer_id=batch.producer_id,
        producer_epoch=batch.epoch,
        base_sequence=batch.sequence,
        transactional=batch.is_transactional,
    )


def whole_batches(piece: FileSlice) -> list[tuple[BatchHeader, list[Record]]]:
    data, found, at = piece.read(), [], 0
    while at + HEADER_BYTES <= len(data) and at + header_at(data, at).size <= len(data):
        found.append((header_at(data, at), decode_batch(data, at)))
        at += found[-1][0].size
    return found


def committed(batches: list[tuple[BatchHeader, list[Record]]], told: list[tuple[int, int]]) -> set[int]:
    """The offsets that a consumer shows: a producer's are left out from where it was told to its next marker."""
    skipping: set[int] = set()
    shown: set[int] = set()
    for header, records in batches:
        while told and told[0][0] <= header.last_offset:
            skipping.add(told.pop(0)[1])
        if header.is_control:
            skipping.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in skipping):
            shown |= {record.offset for record in records}
    return shown


TestTransactionsInALog = TransactionsInALog.TestCase
TestTransactionsInALog.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
