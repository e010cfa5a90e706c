"""Arrow columns into record batches: numpy makes the numbers of all records, Arrow joins them with keys and values.

Of a few rows each is encoded by itself, which is quicker than a dozen calls of either.

A record is its length, three small numbers, the key, the value and the headers (``model.records``). The joined column's
buffer, from one row's start to another's end, is then the payload of a batch.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.model.batch import (
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL,
    BatchHeader,
)
from millstream.model.compression import codec
from millstream.model.records import Record, assemble, encode_record

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

#: A varint of 32 bits takes no more bytes than this, and one of 64 no more than that.
_VARINT32_BYTES_MAX = 5
_VARINT64_BYTES_MAX = 10
_NULL = -1
#: Up to so many rows are encoded one by one.
FEW = 48
#: What a record takes besides key, value and headers, at most.
RECORD_OVERHEAD_BYTES = 3 * _VARINT32_BYTES_MAX + _VARINT32_BYTES_MAX + 4


@dataclass(frozen=True, slots=True)
class Stamp:
    """Who sends a batch, and which of its batches to this partition it is."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    is_transactional: bool = False


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows for one partition, in their order; what is None is null in every row."""

    value: pa.Array
    key: pa.Array | None = None
    #: A list of structs of key and value.
    headers: pa.Array | None = None
    #: Milliseconds; a row without is of the time that it is sent at.
    time_ms: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.value)

    def slice(self, at: int, count: int) -> "Rows":
        return Rows(*(None if each is None else each.slice(at, count) for each in self._columns))

    def take(self, indexes: pa.Array) -> "Rows":
        return Rows(*(None if each is None else each.take(indexes) for each in self._columns))

    @property
    def _columns(self) -> tuple[pa.Array | None, ...]:
        return self.value, self.key, self.headers, self.time_ms


def sizes_of(rows: Rows) -> Ints:
    """What each row takes at most as a record, uncompressed."""
    sizes = np.full(len(rows), RECORD_OVERHEAD_BYTES, np.int64)
    for column in (rows.key, rows.value):
        if column is not None:
            sizes += np.maximum(_lengths(column), 0)
    if rows.headers is not None:
        sizes += _lengths(_headers(rows.headers))
    if rows.time_ms is not None:
        sizes += _VARINT64_BYTES_MAX
    return sizes


def cuts(sizes: Ints, bytes_max: int) -> list[tuple[int, int]]:
    """Where to cut rows into batches of at most ``bytes_max``: (start, end) of each; a larger row is alone."""
    ends = np.cumsum(sizes)
    found = []
    at, before = 0, 0
    while at < len(sizes):
        end = max(at + 1, int(np.searchsorted(ends, before + bytes_max, side="right")))
        found.append((at, end))
        at, before = end, int(ends[end - 1])
    return found


def encode_rows(rows: Rows, *, timestamp_ms: int, compression: int, stamp: Stamp) -> bytearray:
    """One batch of all rows; those without a time of their own are of this one."""
    count = len(rows)
    assert count, "a batch holds at least one record"
    times_ms = None if rows.time_ms is None else _times(rows.time_ms, timestamp_ms)
    first_ms, last_ms = (timestamp_ms,) * 2 if times_ms is None else (int(times_ms.min()), int(times_ms.max()))
    if count <= FEW and times_ms is None and rows.headers is None:
        payload = memoryview(_payload_of_few(rows))
    else:
        payload = memoryview(_payload(rows, None if times_ms is None else times_ms - first_ms))
    header = BatchHeader(
        base_offset=0,
        length=0,
        leader_epoch=NO_LEADER_EPOCH,
        magic=MAGIC,
        crc=0,
        attributes=compression | (TRANSACTIONAL if stamp.is_transactional else 0),
        last_offset_delta=count - 1,
        base_timestamp=first_ms,
        max_timestamp=last_ms,
        producer_id=stamp.producer_id,
        producer_epoch=stamp.producer_epoch,
        base_sequence=stamp.base_sequence,
        record_count=count,
    )
    return assemble(header, codec(compression).compress(payload) if compression else payload)


def _times(column: pa.Array, otherwise_ms: int) -> Ints:
    return np.asarray(pc.fill_null(column.cast(pa.int64()), otherwise_ms))


def _payload_of_few(rows: Rows) -> bytes:
    """What ``_payload`` gives, for rows without headers that are all of the batch's time."""
    values = rows.value.cast(pa.binary()).to_pylist()
    keys = [None] * len(values) if rows.key is None else rows.key.cast(pa.binary()).to_pylist()
    pairs = enumerate(zip(keys, values, strict=True))
    return b"".join([encode_record(Record(key=key, value=value), at, 0) for at, (key, value) in pairs])


def _payload(rows: Rows, time_delta_ms: Ints | None) -> pa.Buffer:
    """The records, one after the other; without deltas all are of the batch's time."""
    count = len(rows)
    zeros = np.zeros(count, np.int64)
    time_delta_ms = zeros if time_delta_ms is None else time_delta_ms
    key_len = np.full(count, _NULL, np.int64) if rows.key is None else _lengths(rows.key)
    value_len = _lengths(rows.value)
    headers = pa.scalar(b"\0", pa.binary()) if rows.headers is None else _headers(rows.headers)
    headers_len = 1 if rows.headers is None else _lengths(headers)
    offset_delta = np.arange(count, dtype=np.int64)
    body_len = (
        1  # Attributes, of which there are none.
        + _varint_len(time_delta_ms)
        + _varint_len(offset_delta)
        + _varint_len(key_len)
        + np.maximum(key_len, 0)
        + _varint_len(value_len)
        + np.maximum(value_len, 0)
        + headers_len
    )
    columns = [body_len, zeros, time_delta_ms, offset_delta, key_len]
    if rows.key is None:
        pieces = [_varints([*columns, value_len])]
    else:
        pieces = [_varints(columns), _bytes(rows.key), _varints([value_len])]
    joined = pc.binary_join_element_wise(*pieces, _bytes(rows.value), headers, pa.scalar(b"", pa.binary()))
    return _data(joined)


def _headers(column: pa.Array) -> pa.Array:
    """Each row's headers as a record carries them; a null list is an empty one."""
    lists = pc.fill_null(pc.list_value_length(column), 0)
    counts = np.asarray(lists).astype(np.int64)
    flat = column.flatten()
    names, values = flat.field(0), flat.field(1)
    each = pc.binary_join_element_wise(
        _varints([_lengths(names)]),
        _bytes(names),
        _varints([_lengths(values)]),
        _bytes(values),
        pa.scalar(b"", pa.binary()),
    )
    starts = np.concatenate(([0], np.cumsum(counts)))
    places = _offsets(each)[starts].astype(np.int32)
    gathered = pa.BinaryArray.from_buffers(
        pa.binary(), len(counts), [None, pa.py_buffer(places), each.buffers()[2] or pa.py_buffer(b"")]
    )
    return pc.binary_join_element_wise(_varints([counts]), gathered, pa.scalar(b"", pa.binary()))


# Arrow's columns as numpy sees them.


def _bytes(column: pa.Array) -> pa.Array:
    """The column as bytes, nothing for null; its length says which it is."""
    return pc.fill_null(column.cast(pa.binary()), b"")


def _offsets(column: pa.Array) -> Ints:
    """Where each row of a binary column begins in its data, and where the last one ends."""
    wide = pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type)
    places = np.frombuffer(column.buffers()[1], np.int64 if wide else np.int32)
    return places[column.offset : column.offset + len(column) + 1].astype(np.int64)


def _lengths(column: pa.Array) -> Ints:
    """How long each row is; -1 where it is null."""
    lengths = np.diff(_offsets(column)) if len(column) else np.zeros(0, np.int64)
    if column.null_count:
        lengths[np.asarray(column.is_null())] = _NULL
    return lengths


def _data(column: pa.Array) -> pa.Buffer:
    """The bytes of all rows of a binary column."""
    places = _offsets(column)
    start, end = int(places[0]), int(places[-1])
    buffer = column.buffers()[2]
    return pa.py_buffer(b"") if buffer is None else buffer.slice(start, end - start)


def places_of(column: pa.Array) -> tuple[Bytes, Ints, Ints]:
    """A binary column's data, where each row starts in it and how long it is (-1: null)."""
    buffer = column.buffers()[2]
    data = np.zeros(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)
    return data, _offsets(column)[:-1], _lengths(column)


# Zigzag numbers.


def _zigzag(numbers: Ints) -> npt.NDArray[np.uint64]:
    return ((numbers << 1) ^ (numbers >> 63)).astype(np.uint64)


def _varint_len(numbers: Ints) -> Ints:
    raw = _zigzag(numbers)
    length = np.ones(len(raw), np.int64)
    for shift in range(7, int(raw.max(initial=0)).bit_length(), 7):
        length += raw >> np.uint64(shift) != 0
    return length


def _varints(columns: list[Ints]) -> pa.Array:
    """A binary column: in each row the numbers of its row, one after the other."""
    count = len(columns[0])
    widths = []
    for numbers in columns:
        most = int(_zigzag(numbers).max(initial=0))
        widths.append(max(1, (most.bit_length() + 6) // 7))
    grid = np.empty((count, sum(widths)), np.uint8)
    is_used = np.ones(grid.shape, np.bool_)
    at = 0
    for numbers, width in zip(columns, widths, strict=True):
        raw = _zigzag(numbers)
        for place in range(width):
            rest = raw >> np.uint64(7 * place)
            more = rest >= 0x80
            grid[:, at] = (rest & np.uint64(0x7F)) | (more.astype(np.uint64) << np.uint64(7))
            if place:
                is_used[:, at] = rest != 0
            at += 1
    lengths = is_used.sum(axis=1, dtype=np.int32)
    places = np.concatenate((np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)))
    data = np.ascontiguousarray(grid[is_used])
    return pa.BinaryArray.from_buffers(pa.binary(), count, [None, pa.py_buffer(places), pa.py_buffer(data)])
