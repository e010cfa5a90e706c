"""Raw record batches into Arrow, a column at a time: Python sees batches, never a record.

Keys and values are not copied out one by one: an Arrow array is laid over the fetched bytes so that every other
entry is a field and those between are whatever separates them, and Arrow takes the fields.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from millstream.model.batch import HEADER_BYTES, LOG_APPEND_TIME, MAGIC, BatchHeader, Buffer, crc_holds, header_at
from millstream.model.columns import Columns, Ints, decode_columns, find_records
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.model.records import ABORT, control_kind, decode_batch, decode_headers, payload_of

TIMESTAMP = pa.timestamp("us", tz="UTC")
HEADERS = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
COLUMNS = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": TIMESTAMP,
    "timestampType": pa.int32(),
}
_MICROSECONDS = 1000


def arrow_schema(*, with_headers: bool) -> pa.Schema:
    """The columns of Spark's Kafka source as Arrow types."""
    return pa.schema({**COLUMNS, "headers": HEADERS} if with_headers else COLUMNS)


class Place(NamedTuple):
    """A batch whose records are wanted, and where it lies."""

    at: int
    header: BatchHeader


class Decoder:
    """Turns what is fetched of one partition, piece by piece in order, into Arrow.

    ``position`` is the next offset to fetch. Records outside ``start`` and ``stop``, control records and those of
    aborted transactions are left out.
    """

    def __init__(
        self, partition: TopicPartition, start: int, stop: int, *, with_headers: bool = False, checks_crcs: bool = True
    ) -> None:
        self.position = start
        #: Bytes of the whole batches that the last survey went over.
        self.surveyed_bytes = 0
        self.partition = partition
        self.with_headers = with_headers
        self._start = start
        self._stop = stop
        self._checks_crcs = checks_crcs
        self._schema = arrow_schema(with_headers=with_headers)
        self._aborting: set[int] = set()
        self._topic = _repeated(partition.topic, 0)

    @property
    def is_done(self) -> bool:
        return self.position >= self._stop

    def skip_to(self, offset: int) -> None:
        """Leave out what lies before ``offset``."""
        self.position = self._start = max(self.position, offset)

    def survey(self, fetched: Buffer, aborted: Sequence[tuple[int, int]] = ()) -> list[Place]:
        """The batches in ``fetched``, which was asked for at ``position``, with records to show; moves the position.

        ``aborted`` gives producer id and first offset of each aborted transaction with a record in it.
        """
        return list(self._wanted(fetched, aborted))

    def decode(self, fetched: Buffer, places: list[Place]) -> pa.RecordBatch | None:
        """The records of these batches; None when there are none."""
        return decode_together([Part(self, fetched, places)])

    def wanted(self, offsets: Ints) -> tuple[int, int]:
        """From which and up to which of these offsets, in order, records are to be shown."""
        low, high = np.searchsorted(offsets, (self._start, self._stop))
        return int(low), int(high)

    def table(self, arrays: list[pa.Array]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def topics(self, rows: int) -> pa.Array:
        """The topic's name so many times; the longest column so far serves the shorter ones."""
        if len(self._topic) < rows:
            self._topic = _repeated(self.partition.topic, rows)
        return self._topic.slice(0, rows)

    def _wanted(self, fetched: Buffer, aborted: Sequence[tuple[int, int]]) -> Iterator[Place]:
        """The batches with records to show; moves the position behind every batch that is there to its last byte."""
        starting = sorted(aborted, key=lambda transaction: transaction[1], reverse=True)
        self._aborting.clear()  # Every answer tells anew which transactions were open where it starts.
        at, end = 0, len(fetched)
        self.surveyed_bytes = 0
        while end - at >= HEADER_BYTES and not self.is_done:
            header = header_at(fetched, at)
            if header.magic != MAGIC:
                raise self._corrupt(header, f"is of format {header.magic}, which was last written before Kafka 0.11")
            if header.size > end - at:
                return
            if self._checks_crcs and not crc_holds(fetched, at, header):
                raise self._corrupt(header, "does not match its checksum")
            while starting and starting[-1][1] <= header.last_offset:
                self._aborting.add(starting.pop()[0])
            if header.is_control:
                if any(control_kind(record) == ABORT for record in decode_batch(fetched, at)):
                    self._aborting.discard(header.producer_id)
            elif header.last_offset >= self.position and header.record_count > 0 and not self._is_aborted(header):
                yield Place(at, header)
            self.position = max(self.position, header.next_offset)
            at += header.size
            self.surveyed_bytes = at

    def _is_aborted(self, header: BatchHeader) -> bool:
        return header.is_transactional and header.producer_id in self._aborting

    def _corrupt(self, header: BatchHeader, what: str) -> ProtocolError:
        where = f"the batch at offset {header.base_offset} of partition {self.partition}"
        return ProtocolError(ErrorCode.CORRUPT_MESSAGE, f"{where} {what}")


class Part(NamedTuple):
    """What was fetched of one partition, and the batches in it whose records are wanted."""

    decoder: Decoder
    fetched: Buffer
    places: list[Place]


def decode_together(parts: Sequence[Part]) -> pa.RecordBatch | None:
    """The records of these batches, partition by partition, decoded at one go; None when there are none.

    All decoders have the same columns. Of a few records in each of several partitions, each would cost as much.
    """
    parts = [part for part in parts if part.places]
    if not parts:
        return None
    payload, columns, headers = _lay_out(parts)
    counts = np.array([header.record_count for header in headers])
    offsets = np.repeat([header.base_offset for header in headers], counts) + columns.offset_deltas
    sizes = [sum(place.header.record_count for place in part.places) for part in parts]
    wanted = _wanted_rows(parts, sizes, offsets)
    if not any(map(len, wanted)):
        return None
    data = pa.py_buffer(payload)
    arrays = [
        _fields(data, columns.key_start, columns.key_len),
        _fields(data, columns.value_start, columns.value_len),
        _joined([part.decoder.topics(size) for part, size in zip(parts, sizes, strict=True)]),
        pa.array(np.repeat(np.array([part.decoder.partition.partition for part in parts], np.int32), sizes)),
        pa.array(offsets),
        _timestamps(columns, headers, counts),
        pa.array(np.repeat(np.array([_is_append_time(header) for header in headers], np.int32), counts)),
    ]
    decoder = parts[0].decoder
    if decoder.with_headers:
        arrays.append(_headers(payload, columns))
    table = decoder.table(arrays)
    if len(wanted) == 1:
        return table.slice(wanted[0].start, len(wanted[0]))
    if sum(map(len, wanted)) == len(offsets):
        return table
    # Of an empty range numpy would make floating-point numbers, and all others with it.
    return table.take(pa.array(np.concatenate([np.arange(rows.start, rows.stop) for rows in wanted])))


def _wanted_rows(parts: Sequence[Part], sizes: Sequence[int], offsets: Ints) -> list[range]:
    """The rows of each part that are within its range."""
    wanted, row = [], 0
    for part, size in zip(parts, sizes, strict=True):
        low, high = part.decoder.wanted(offsets[row : row + size])
        wanted.append(range(row + low, row + high))
        row += size
    return wanted


def _joined(arrays: list[pa.Array]) -> pa.Array:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def _lay_out(parts: Sequence[Part]) -> tuple[Buffer, Columns, list[BatchHeader]]:
    """One buffer with all records, and their columns in it: what was fetched, or a copy if it is in pieces."""
    headers = [place.header for part in parts for place in part.places]
    payload: Buffer
    if len(parts) == 1 and not any(header.compression for header in headers):
        payload = parts[0].fetched
        spans = [(place.at + HEADER_BYTES, place.at + place.header.size) for place in parts[0].places]
    else:
        pieces = [payload_of(part.fetched, place.at, place.header) for part in parts for place in part.places]
        ends = np.cumsum([len(piece) for piece in pieces]).tolist()
        spans = list(zip([0, *ends[:-1]], ends, strict=True))
        payload = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    starts = [
        find_records(payload, at, end, header.record_count) for (at, end), header in zip(spans, headers, strict=True)
    ]
    return payload, decode_columns(payload, np.concatenate(starts)), headers


def _is_append_time(header: BatchHeader) -> bool:
    return bool(header.attributes & LOG_APPEND_TIME)


def _timestamps(columns: Columns, headers: list[BatchHeader], counts: Ints) -> pa.Array:
    """Each record's own time, or its batch's where the broker gave it."""
    appended = np.array([_is_append_time(header) for header in headers])
    base = np.array(
        [header.max_timestamp if _is_append_time(header) else header.base_timestamp for header in headers], np.int64
    )
    deltas = columns.timestamp_deltas
    if appended.any():
        deltas = np.where(np.repeat(appended, counts), 0, deltas)
    return pa.array((np.repeat(base, counts) + deltas) * _MICROSECONDS).view(TIMESTAMP)


def _fields(data: pa.Buffer, starts: Ints, lengths: Ints) -> pa.Array:
    """The bytes at each start; null where the length is -1."""
    rows = len(starts)
    absent = lengths < 0
    has_nulls = absent.any()
    if has_nulls and absent.all():
        return pa.nulls(rows, pa.binary())
    bounds = np.empty(2 * rows + 1, np.int32)
    bounds[0:-1:2] = starts
    np.add(starts, np.maximum(lengths, 0) if has_nulls else lengths, out=bounds[1:-1:2], casting="unsafe")
    bounds[-1] = bounds[-2]
    over = pa.BinaryArray.from_buffers(pa.binary(), 2 * rows, [None, pa.py_buffer(bounds), data])
    indices = pa.array(np.arange(0, 2 * rows, 2, dtype=np.int32), mask=absent if has_nulls else None)
    return over.take(indices)


def _repeated(text: str, rows: int) -> pa.Array:
    raw = text.encode()
    bounds = np.arange(rows + 1, dtype=np.int32) * len(raw)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(bounds), pa.py_buffer(raw * rows))


def _headers(payload: Buffer, columns: Columns) -> pa.Array:
    """The headers of each record; null for a record without any, as in Spark's source."""
    data = np.frombuffer(payload, np.uint8)
    some = np.flatnonzero(data[columns.headers_start])
    if not len(some):
        return pa.nulls(len(columns), HEADERS)
    found: list[list[dict[str, object]] | None] = [None] * len(columns)
    ends = columns.record_start + columns.record_len
    view = memoryview(payload)
    for row in some.tolist():
        piece = bytes(view[columns.headers_start[row] : ends[row]])
        headers, _ = decode_headers(piece, 0, len(piece))
        found[row] = [{"key": name, "value": value} for name, value in headers]
    return pa.array(found, HEADERS)
