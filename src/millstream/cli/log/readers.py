"""What lies in each kind of file of a broker's data folder, as rows.

A row with a ``fault`` tells of damage: what is wrong, and where. Reading ends there, or goes on where it can.
"""

import mmap
import os
import struct
from collections.abc import Callable, Iterator

from millstream.cli.times import moment_text
from millstream.model.batch import (
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    NO_PRODUCER_ID,
    BatchHeader,
    crc_holds,
    header_at,
)
from millstream.model.compression import CODECS
from millstream.model.errors import ProtocolError

Row = dict[str, object]
#: path, whether records are wanted too -> rows.
FileReader = Callable[[str, bool], Iterator[Row]]

_INDEX_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
_ABORTED_ENTRY = struct.Struct(">hqqqq")


def segment(path: str, with_records: bool) -> Iterator[Row]:
    """The batches of a segment, each header checked against its CRC."""
    if not os.path.getsize(path):
        return
    with (
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        memoryview(data) as view,
    ):
        at, end = 0, len(view)
        while at < end:
            if end - at < HEADER_BYTES:
                yield {"position": at, "fault": f"{end - at} bytes are left, fewer than a batch header"}
                return
            header = header_at(view, at)
            if header.magic != MAGIC or not HEADER_BYTES <= header.size <= end - at:
                yield {"position": at, "fault": _broken_header(header, end - at)}
                return
            yield _batch(view, at, header, with_records)
            at += header.size


def _broken_header(header: BatchHeader, left: int) -> str:
    if header.magic != MAGIC:
        return f"magic {header.magic}, not {MAGIC}"
    return f"a batch of {header.size} bytes, with {left} left"


def _batch(view: memoryview, at: int, header: BatchHeader, with_records: bool) -> Row:
    codec = CODECS.get(header.compression)
    row: Row = {
        "position": at,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "bytes": header.size,
        "epoch": header.leader_epoch,
        "codec": codec.name if codec else f"unknown ({header.compression})",
        "timestamp_type": "append" if header.attributes & LOG_APPEND_TIME else "create",
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "max_time": moment_text(header.max_timestamp),
        "producer_id": None if header.producer_id == NO_PRODUCER_ID else header.producer_id,
        "producer_epoch": None if header.producer_id == NO_PRODUCER_ID else header.producer_epoch,
        "base_sequence": None if header.base_sequence < 0 else header.base_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "crc": header.crc,
    }
    if not crc_holds(view, at, header):
        row["fault"] = "the CRC does not match the bytes"
    elif with_records:
        row["contents"] = list(_records(view, at))
    return row


def _records(view: memoryview, at: int) -> Iterator[Row]:
    from millstream.model.records import decode_batch

    try:
        records = decode_batch(view, at)
    except ProtocolError as error:
        yield {"fault": str(error)}
        return
    for record in records:
        yield {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "time": moment_text(record.timestamp),
            "key": _text(record.key),
            "value": _text(record.value),
            "headers": {name: _text(value) for name, value in record.headers},
        }


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="backslashreplace")


def offset_index(path: str, with_records: bool) -> Iterator[Row]:
    """Entries of an offset index; Kafka leaves zeros after the last one of a segment it still writes."""
    base = _base_offset(path)
    for relative, position in _entries(path, _INDEX_ENTRY):
        if not relative and not position:
            return
        yield {"offset": base + relative, "position": position}
    yield from _odd_end(path, _INDEX_ENTRY)


def time_index(path: str, with_records: bool) -> Iterator[Row]:
    """Entries of a time index."""
    base = _base_offset(path)
    for timestamp, relative in _entries(path, _TIME_ENTRY):
        if not timestamp and not relative:
            return
        yield {"timestamp": timestamp, "time": moment_text(timestamp), "offset": base + relative}
    yield from _odd_end(path, _TIME_ENTRY)


def aborted_index(path: str, with_records: bool) -> Iterator[Row]:
    """The transactions that were aborted in a segment."""
    for _, producer_id, first, last, last_stable in _entries(path, _ABORTED_ENTRY):
        yield {
            "producer_id": producer_id,
            "first_offset": first,
            "last_offset": last,
            "last_stable_offset": last_stable,
        }
    yield from _odd_end(path, _ABORTED_ENTRY)


def snapshot(path: str, with_records: bool) -> Iterator[Row]:
    """The producers of a snapshot."""
    from millstream.storage.producer_snapshot import DamagedSnapshot, decode_snapshot

    try:
        producers = decode_snapshot(_content(path))
    except DamagedSnapshot as error:
        yield {"fault": str(error)}
        return
    for producer in producers:
        last = producer.batches[-1] if producer.batches else None
        yield {
            "producer_id": producer.producer_id,
            "epoch": producer.epoch,
            "last_sequence": last.last_sequence if last else None,
            "last_offset": last.last_offset if last else None,
            "last_timestamp": producer.last_timestamp,
            "last_time": moment_text(producer.last_timestamp),
            "transaction_offset": producer.txn_first_offset if producer.txn_first_offset >= 0 else None,
        }


def offset_checkpoint(path: str, with_records: bool) -> Iterator[Row]:
    """An offset of each partition: recovery points, start offsets, high watermarks."""
    from millstream.storage.checkpoint import DamagedCheckpoint, decode_offsets

    try:
        for (topic, partition), offset in decode_offsets(_content(path)).items():
            yield {"topic": topic, "partition": partition, "offset": offset}
    except DamagedCheckpoint as error:
        yield {"fault": str(error)}


def epoch_checkpoint(path: str, with_records: bool) -> Iterator[Row]:
    """Where each leader epoch of a partition began."""
    from millstream.storage.checkpoint import DamagedCheckpoint, decode_epochs

    try:
        for epoch, start_offset in decode_epochs(_content(path)):
            yield {"epoch": epoch, "start_offset": start_offset}
    except DamagedCheckpoint as error:
        yield {"fault": str(error)}


def properties(path: str, with_records: bool) -> Iterator[Row]:
    """Names and values: ``meta.properties`` has them after ``=``, ``partition.metadata`` after a colon."""
    separator = ":" if path.endswith("partition.metadata") else "="
    for line in _content(path).decode(errors="replace").splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, value = line.partition(separator)
            yield {"name": name.strip(), "value": value.strip()}


#: How a file's name ends -> what reads it.
READERS: dict[str, FileReader] = {
    ".log": segment,
    ".index": offset_index,
    ".timeindex": time_index,
    ".txnindex": aborted_index,
    ".snapshot": snapshot,
    "leader-epoch-checkpoint": epoch_checkpoint,
    "-offset-checkpoint": offset_checkpoint,
    "partition.metadata": properties,
    "meta.properties": properties,
}


def reader_for(path: str) -> FileReader | None:
    """What reads a file of this name, or None when none does."""
    name = os.path.basename(path)
    return next((reader for ending, reader in READERS.items() if name.endswith(ending)), None)


def _base_offset(path: str) -> int:
    """A segment's files are named by its first offset."""
    stem = os.path.basename(path).partition(".")[0]
    return int(stem) if stem.isdigit() else 0


def _content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _entries(path: str, entry: struct.Struct) -> Iterator[tuple[int, ...]]:
    data = _content(path)
    whole = len(data) - len(data) % entry.size
    return entry.iter_unpack(data[:whole])


def _odd_end(path: str, entry: struct.Struct) -> Iterator[Row]:
    odd = os.path.getsize(path) % entry.size
    if odd:
        yield {"fault": f"{odd} bytes after the last whole entry"}
