"""A log against a list: whatever is appended, cut, flushed, lost and opened again, the two agree.

The disk is one in memory that, at a crash, loses what was not flushed; the same machine also runs on real files,
where only the process dies.
"""

import asyncio
import errno
import random
import shutil
import tempfile
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from millstream.model.batch import header_at
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.records import Record
from millstream.storage.files import Files, OsFiles
from millstream.storage.log import Log
from millstream.storage.manager import Logs
from tests.simulation.files import MemoryFiles
from tests.unit.storage.ground import NOW_MS, TP, Here, SetClock, append, batch, made, open_logs, records_of

PRODUCERS = (3, 4)
SETTINGS: dict[str, Any] = {"segment_bytes": 4_500, "index_interval_bytes": 200, "segment_index_bytes": 128}


class LogAgainstList(RuleBasedStateMachine):
    """The model holds every record the log should, by offset."""

    files: Files
    path: str

    def __init__(self) -> None:
        super().__init__()
        self.clock = SetClock()
        self.records: dict[int, Record] = {}
        self.start = self.end = self.acknowledged = 0
        self.count = 0
        self.epoch = 0
        self.sequences: dict[int, int] = {}
        #: Records of a batch that is being written ahead.
        self.ahead: list[Record] = []

    @initialize(seed=st.integers(0, 2**16))
    def open(self, seed: int) -> None:
        self.prepare(seed)
        self.logs = self.load()

    def prepare(self, seed: int) -> None:
        self.files, self.path = MemoryFiles(random.Random(seed), self.clock), "/data"

    def load(self) -> Logs:
        logs = open_logs(self.files, self.path, clock=self.clock, **SETTINGS)
        made(logs, **SETTINGS)
        return logs

    @property
    def log(self) -> Log:
        log = self.logs.get(TP)
        assert log is not None
        return log

    # What is done to it.

    @rule(
        sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3),
        padding=st.integers(0, 300),
        timestamp=st.integers(0, 50),
        producer_id=st.sampled_from((-1, *PRODUCERS)),
    )
    def append(self, sizes: list[int], padding: int, timestamp: int, producer_id: int) -> None:
        self.grow_by_ahead()  # What the log takes in first.
        batches = []
        for size in sizes:
            self.count += 1
            fields: dict[str, Any] = {}
            if producer_id >= 0:
                sequence = self.sequences.get(producer_id, 0)
                self.sequences[producer_id] = sequence + size
                fields = {"producer_id": producer_id, "producer_epoch": self.epoch, "base_sequence": sequence}
            value = b"%d" % self.count + bytes(padding)
            batches.append(batch(size, timestamp=NOW_MS + timestamp, value=value, **fields))
            for at in range(size):
                self.records[self.end] = Record(self.end, NOW_MS + timestamp + at, None, value)
                self.end += 1
        outcome = append(self.log, *batches, epoch=self.epoch)
        assert (outcome.last_offset + 1, outcome.is_duplicate) == (self.end, False)
        self.acknowledged = self.end

    @rule(size=st.integers(1, 4), padding=st.integers(0, 300), timestamp=st.integers(0, 50), is_run=st.booleans())
    def write_ahead(self, size: int, padding: int, timestamp: int, is_run: bool) -> None:
        """Begin to append; what is done next has it taken in first, or finds no more than its bytes."""
        self.log.settle()
        self.count += 1
        value = b"%d" % self.count + bytes(padding)
        records = memoryview(batch(size, timestamp=NOW_MS + timestamp, value=value))
        header, first_offset = header_at(records), self.end

        def take_in() -> None:
            assert self.log.append(records, ((0, header),), self.epoch, NOW_MS).first_offset == first_offset
            self.grow_by_ahead()

        self.ahead = [Record(self.end + at, NOW_MS + timestamp + at, None, value) for at in range(size)]
        ahead = self.log.write_ahead(records, header, self.epoch, NOW_MS, take_in)
        if ahead is None:
            take_in()
        elif is_run:
            ahead.run()

    def grow_by_ahead(self) -> None:
        self.records |= {record.offset: record for record in self.ahead}
        self.end = self.acknowledged = self.end + len(self.ahead)
        self.ahead = []

    def find_ahead(self) -> None:
        """After a death: what was being written may be there, whole."""
        if self.log.end_offset == self.end + len(self.ahead):
            self.grow_by_ahead()
        self.ahead = []

    @rule()
    def lead_anew(self) -> None:
        self.log.settle()
        self.epoch += 1
        self.sequences.clear()
        self.log.epochs.assign(self.epoch, self.log.end_offset)

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW_MS)

    @rule()
    def flush(self) -> None:
        asyncio.run(self.logs.flush_due(self.clock.ms + 3_600_000, Here(), Here()))
        assert self.log.recovery_point == self.log.end_offset or not self.records

    @rule()
    def commit(self) -> None:
        asyncio.run(self.log.flush_async(Here()))
        assert self.log.flusher.durable_offset == self.log.end_offset

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        self.log.truncate_to(data.draw(st.integers(self.start, self.end), label="offset"))
        self.forget_from(self.log.end_offset)
        self.settle()

    @rule(data=st.data())
    def advance_start(self, data: st.DataObject) -> None:
        self.log.advance_start(data.draw(st.integers(self.start, self.end), label="offset"))
        self.forget_before(self.log.start_offset)

    @rule()
    def retain(self) -> None:
        """Settings keep everything, so only what lies before the start goes."""
        self.log.enforce_retention(NOW_MS, self.log.end_offset)
        assert self.log.start_offset == self.start

    @rule(gap=st.integers(0, 100))
    def restart(self, gap: int) -> None:
        self.log.restart_at(self.end + gap)
        self.records.clear()
        self.sequences.clear()
        self.start = self.end = self.acknowledged = self.log.start_offset
        self.settle()

    @rule()
    def reopen(self) -> None:
        self.logs.close()
        self.logs = self.load()
        assert self.log.recovery_point == self.log.end_offset == self.end

    @rule()
    def kill(self) -> None:
        """The process dies: nothing is lost."""
        self.drop_process()
        self.logs = self.load()
        self.find_ahead()
        assert self.log.end_offset == self.end
        assert self.log.start_offset <= self.start
        self.log.advance_start(self.start)

    def drop_process(self) -> None:
        assert isinstance(self.files, MemoryFiles)
        self.files.kill()

    # What must hold.

    def settle(self) -> None:
        """Bring a cut to the disk: one that is not there yet may be undone by a crash, as in Kafka."""
        self.log.flush()

    def forget_from(self, offset: int) -> None:
        if offset < self.end:
            self.sequences.clear()
            self.epoch += 1
        self.records = {each: record for each, record in self.records.items() if each < offset}
        self.end = self.acknowledged = offset

    def forget_before(self, offset: int) -> None:
        self.records = {each: record for each, record in self.records.items() if each >= offset}
        self.start = offset

    @invariant()
    def bounds_agree(self) -> None:
        if hasattr(self, "logs"):
            assert (self.log.start_offset, self.log.end_offset) == (self.start, self.end)
            assert self.log.recovery_point <= self.end
            assert self.log.producers.end_offset == self.end

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.start, self.end), label="offset")
        upper = data.draw(st.integers(self.start, self.end), label="upper")
        bytes_max = data.draw(st.sampled_from((0, 100, 1_000, 1_000_000)), label="bytes_max")
        piece = self.log.read(offset, bytes_max, upper)
        found = [record for record in records_of(piece) if record.offset >= offset]
        assert found == [self.records[record.offset]._replace(headers=record.headers) for record in found]
        assert [record.offset for record in found] == list(range(offset, offset + len(found)))
        assert all(record.offset < upper for record in found)
        if upper == self.end and offset < self.end:
            assert found

    @rule()
    def read_everything(self) -> None:
        offset = self.start
        while offset < self.end:
            found = [record for record in records_of(self.log.read(offset, 500, self.end)) if record.offset >= offset]
            assert found, f"nothing at {offset}"
            for record in found:
                assert record.value == self.records[record.offset].value
            offset = found[-1].offset + 1

    @rule(timestamp=st.integers(-1, 60))
    def find_timestamp(self, timestamp: int) -> None:
        wanted = next((each for each in self.ordered() if each.timestamp >= NOW_MS + timestamp), None)
        found = self.log.find_timestamp(NOW_MS + timestamp)
        assert found == (wanted and (wanted.timestamp, wanted.offset, self.log.epochs.epoch_at(wanted.offset)))

    @rule()
    def find_newest(self) -> None:
        newest = max(self.ordered(), key=lambda record: record.timestamp, default=None)
        found = self.log.max_timestamp()
        if newest is not None:
            assert found is not None
            assert (found[0], found[1]) == (newest.timestamp, newest.offset)

    def ordered(self) -> list[Record]:
        return [self.records[offset] for offset in sorted(self.records)]

    @rule(producer_id=st.sampled_from(PRODUCERS))
    def repeat(self, producer_id: int) -> None:
        """The last batch again is answered with its place, also after any restart."""
        producer = self.log.producers.get(producer_id)
        if producer is None or producer_id not in self.sequences or not producer.batches:
            return
        last = producer.batches[-1]
        if last.first_offset < self.start:
            return
        again = batch(
            last.last_offset - last.first_offset + 1,
            producer_id=producer_id,
            producer_epoch=producer.epoch,
            base_sequence=last.first_sequence,
        )
        outcome = append(self.log, again, epoch=self.epoch)
        assert outcome.is_duplicate
        assert (outcome.first_offset, outcome.last_offset) == (last.first_offset, last.last_offset)


class LogThroughCrashes(LogAgainstList):
    """Also the machine dies, and small files are damaged while it is down."""

    @rule()
    def crash(self) -> None:
        """What was flushed is there; of the rest a prefix may be."""
        assert isinstance(self.files, MemoryFiles)
        durable = self.log.flusher.durable_offset
        self.files.crash()
        self.reload_after_loss(durable)

    def reload_after_loss(self, durable: int) -> None:
        self.logs = self.load()
        self.find_ahead()
        log = self.log
        assert durable <= log.end_offset <= max(self.end, self.start)
        if log.start_offset < self.start:
            log.advance_start(min(self.start, log.end_offset))
        lost_from, self.start = log.end_offset, log.start_offset
        self.forget_from(lost_from)
        self.read_everything()

    @rule(operation=st.sampled_from(("append", "open", "rename", "truncate", "flush", "*")), after=st.integers(0, 6))
    def fail(self, operation: str, after: int) -> None:
        """The disk refuses something, at some moment of an append, a roll and a flush; nothing acknowledged is lost."""
        assert isinstance(self.files, MemoryFiles)
        self.log.settle()
        self.files.fail(operation, errno.EIO, "/data/*", after=after)
        try:
            self.append([1], 10, 3, -1)
            self.log.roll(NOW_MS)
            self.append([1], 10, 4, -1)
            self.log.flush()
        except ProtocolError as refusal:
            assert refusal.code is ErrorCode.KAFKA_STORAGE_ERROR
            assert self.log.is_offline
        finally:
            self.files.heal()
        self.files.kill()
        self.logs = self.load()
        assert self.acknowledged <= self.log.end_offset <= self.end
        self.log.advance_start(self.start)
        self.forget_from(self.log.end_offset)
        self.read_everything()

    @rule(data=st.data())
    def damage_small_file(self, data: st.DataObject) -> None:
        """An index, snapshot or checkpoint that is wrong or gone is made good."""
        assert isinstance(self.files, MemoryFiles)
        self.logs.close()
        small = [
            path for path in self.files.paths() if path.startswith(self.path) and not path.endswith((".log", ".lock"))
        ]
        path = data.draw(st.sampled_from(small), label="path")
        size = self.files.size(path)
        if size == 0 or data.draw(st.booleans(), label="remove"):
            self.files.remove(path)
        else:
            at = data.draw(st.integers(0, size - 1), label="at")
            self.files.damage(path, at, data.draw(st.binary(min_size=1, max_size=8), label="bytes")[: size - at])
        started = self.start
        self.logs = self.load()
        assert self.log.end_offset == self.end
        if self.log.start_offset < started:
            self.log.advance_start(started)
        self.read_everything()


class LogOnRealFiles(LogAgainstList):
    """The operating system's files, and a process that dies."""

    def prepare(self, seed: int) -> None:
        self.files, self.path = OsFiles(), tempfile.mkdtemp(prefix="millstream-")

    def drop_process(self) -> None:
        for directory in self.logs.directories:
            directory.unlock()

    def teardown(self) -> None:
        if hasattr(self, "logs"):
            self.drop_process()
            shutil.rmtree(self.path)


QUICK = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
    suppress_health_check=[HealthCheck.too_slow],
)
TestLogAgainstList = LogAgainstList.TestCase
TestLogAgainstList.settings = QUICK
TestLogThroughCrashes = LogThroughCrashes.TestCase
TestLogThroughCrashes.settings = settings(QUICK, max_examples=100)
TestLogOnRealFiles = LogOnRealFiles.TestCase
TestLogOnRealFiles.settings = settings(QUICK, max_examples=10)
