"""What storage tests stand on: a clock that is set, topics' settings, batches, and logs in a folder."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from millstream.config.broker import BrokerConfig
from millstream.config.topic import TopicConfig
from millstream.model.batch import BatchHeader, header_at
from millstream.model.ids import TopicPartition
from millstream.model.records import Record, decode_batch, encode_batch
from millstream.model.slices import FileSlice
from millstream.storage.directory import LogDirectory
from millstream.storage.files import Files, OsFiles
from millstream.storage.log import AppendOutcome, Log
from millstream.storage.manager import Logs
from tests.batches import checked_batches

NOW_MS = 1_700_000_000_000
TP = TopicPartition("orders", 0)
TOPIC_ID = bytes(range(16))
DEFAULTS = TopicConfig.resolve(BrokerConfig.load(None, {}, {}))


class SetClock:
    """Time stands where the test put it."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.ms = now_ms

    def now_ms(self) -> int:
        return self.ms

    def monotonic_s(self) -> float:
        return self.ms / 1000


class Here:
    """Workers that do everything at once, where they are asked."""

    async def in_thread(self, function: Any, *args: Any) -> Any:
        return function(*args)

    async def in_process(self, function: Any, *args: Any) -> Any:
        return function(*args)


def config(**changes: Any) -> TopicConfig:
    return replace(DEFAULTS, **changes)


def tp(partition: int) -> TopicPartition:
    return TopicPartition(TP.topic, partition)


def batch(count: int = 1, *, timestamp: int = NOW_MS, value: bytes = b"value", **fields: Any) -> bytearray:
    """A batch of ``count`` records a millisecond apart."""
    return encode_batch([Record(timestamp=timestamp + at, value=value) for at in range(count)], **fields)


def idempotent(sequence: int, count: int = 1, *, producer_id: int = 7, epoch: int = 0, **fields: Any) -> bytearray:
    return batch(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **fields)


def append(log: Log, *batches: bytearray, epoch: int = 0, now_ms: int = NOW_MS, **options: Any) -> AppendOutcome:
    """Append as the leader does, from one request."""
    records = memoryview(bytearray().join(batches))
    return log.append(records, list(checked_batches(records)), epoch, now_ms, **options)


def append_marker(log: Log, marker: bytearray) -> AppendOutcome:
    return log.append(memoryview(marker), [(0, header_at(marker))], 0, NOW_MS, is_client=False)


def new_log(files: Files, path: str, clock: SetClock | None = None, **changes: Any) -> Log:
    directory = LogDirectory(path, files, clock or SetClock(), random.Random(0))
    log = Log(directory, TP, config(**changes), TOPIC_ID)
    log.create()
    return log


def open_logs(files: Files, *paths: str, clock: SetClock | None = None, **changes: Any) -> Logs:
    settings = config(**changes)
    logs = Logs(files, clock or SetClock(), paths, lambda topic: settings, random.Random(0))
    logs.open()
    return logs


def made(logs: Logs, topic_partition: TopicPartition = TP, **changes: Any) -> Log:
    """The partition's log, new if it is not there."""
    return logs.get(topic_partition) or logs.create(topic_partition, TOPIC_ID, config(**changes))


def records_of(piece: FileSlice | None) -> list[Record]:
    """The records of every whole batch in a slice."""
    data = piece.read() if piece is not None else b""
    records, at = [], 0
    while at + 61 <= len(data) and at + header_at(data, at).size <= len(data):
        records += decode_batch(data, at)
        at += header_at(data, at).size
    return records


def headers_of(data: bytes) -> list[BatchHeader]:
    found, at = [], 0
    while at < len(data):
        found.append(header_at(data, at))
        at += found[-1].size
    return found


def read_all(log: Log, upper: int | None = None, bytes_max: int = 1 << 20) -> list[Record]:
    """Every record from the log's start on, read as a consumer does."""
    upper = log.end_offset if upper is None else upper
    records: list[Record] = []
    offset = log.start_offset
    while (piece := log.read(offset, bytes_max, upper)) is not None:
        found = [record for record in records_of(piece) if record.offset >= offset]
        if not found:
            break
        records += found
        offset = found[-1].offset + 1
    return records


def offsets(records: Sequence[Record]) -> list[int]:
    return [record.offset for record in records]


OS = OsFiles()
