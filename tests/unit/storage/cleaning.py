"""What the cleaner's tests stand on: a cleaner beside real logs, and keys with values to compact."""

import asyncio
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from millstream.config.broker import BrokerConfig
from millstream.model.ids import TopicPartition
from millstream.model.records import Record, encode_batch
from millstream.storage.cleaner import Cleaner
from millstream.storage.files import Buffer, OsFile, OsFiles
from millstream.storage.log import Log
from millstream.storage.manager import Logs
from tests.unit.storage.ground import NOW_MS, TP, Here, SetClock, append, headers_of, made, open_logs, records_of

COMPACT: dict[str, Any] = {
    "cleanup_compact": True,
    "cleanup_delete": False,
    "segment_bytes": 1_000,
    "delete_retention_ms": 1_000,
}


class QuickFile(OsFile):
    """A real file that does not wait for the disk."""

    __slots__ = ()

    def flush(self) -> None:
        pass


class QuickFiles(OsFiles):
    """Real files; nothing here tests a power cut, and waiting for the disk is most of what the tests would do."""

    def open(self, path: str, *, writable: bool = False, create: bool = False) -> OsFile:
        file = super().open(path, writable=writable, create=create)
        return QuickFile(path, os.dup(file.fileno()))

    def replace(self, path: str, data: Buffer) -> None:
        Path(path).write_bytes(data)

    def sync_folder(self, path: str) -> None:
        if not Path(path).exists():
            raise FileNotFoundError(2, "No such file or directory", path)


OS = QuickFiles()


class Shipping(Here):
    """Workers in place, to whom everything is sent as to another process; a test may meddle in between."""

    def __init__(self) -> None:
        self.jobs: list[Any] = []
        self.meanwhile: Callable[[], None] = lambda: None
        #: Done once, before the next thread begins.
        self.before_thread: Callable[[], None] | None = None

    async def in_thread(self, function: Any, *args: Any) -> Any:
        meddle, self.before_thread = self.before_thread, None
        if meddle is not None:
            meddle()
        return function(*args)

    async def in_process(self, function: Any, *args: Any) -> Any:
        function, args = pickle.loads(pickle.dumps((function, args)))
        self.jobs.append(args[0])
        result = pickle.loads(pickle.dumps(function(*args)))
        self.meanwhile()
        return result


class Ground:
    """Logs in a folder with a cleaner beside them."""

    def __init__(self, path: Path, settings: dict[str, str] | None = None, **changes: Any) -> None:
        self.path = str(path)
        self.clock = SetClock()
        self.changes = {**COMPACT, **changes}
        self.workers = Shipping()
        self.config = BrokerConfig.load(None, settings or {}, {})
        self.open()

    def open(self) -> None:
        self.logs: Logs = open_logs(OS, self.path, clock=self.clock, **self.changes)
        self.cleaner = Cleaner(
            self.logs, self.workers, self.clock, Random(5), lambda: self.config, lambda partition: 1 << 60
        )

    def reopen(self) -> None:
        self.logs.close()
        self.open()

    def kill(self) -> None:
        """The process ends, and another begins."""
        for directory in self.logs.directories:
            directory.unlock()
        self.open()

    def log(self, partition: int = 0) -> Log:
        return made(self.logs, TopicPartition(TP.topic, partition), **self.changes)

    def clean(self) -> int:
        for log in self.logs:
            log.flush()
        return asyncio.run(self.cleaner.clean())


def put(log: Log, *pairs: tuple[str, str | None], **fields: Any) -> None:
    """Append a batch of keys and values."""
    records = [Record(0, NOW_MS - 500, key.encode(), None if value is None else value.encode()) for key, value in pairs]
    append(log, encode_batch(records, **fields))


def fill(log: Log, rounds: int = 40, keys: int = 5) -> None:
    for at in range(rounds):
        put(log, *[(f"key-{key}", f"value-{at}" * 3) for key in range(keys)])


def content(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """Every record, read as a consumer reads: batch by batch, past the empty ones."""
    found, offset = [], log.start_offset
    while (piece := log.read(offset, 1 << 20, log.end_offset)) is not None:
        found += [(r.offset, r.key, r.value) for r in records_of(piece) if r.offset >= offset]
        offset = headers_of(piece.read())[-1].next_offset
    return found
