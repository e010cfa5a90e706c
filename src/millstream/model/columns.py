"""The records inside batches as arrays: for compaction and whoever else handles them by the million.

Python walks the records' lengths, since each says where the next one starts; numpy decodes everything else, a
field of all records at a time. The cost of that is per call, so give it many batches at once: ``record_starts``
for each, then one ``decode_columns`` over the buffer that holds them all.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from millstream.model.batch import Buffer
from millstream.model.errors import ProtocolError
from millstream.model.records import invalid
from millstream.model.varint import VARINT_BYTES_MAX, decode_varint

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

#: Fewer records of one size than this are quicker walked; so many are looked at first, and walked at least and at most.
_RUN_LEAST = 8
_LOOK_LEAST = 16
_WALK_LEAST = 16
_WALK_MOST = 4096


@dataclass(frozen=True, slots=True)
class Columns:
    """One row per record, in their order; positions count from the buffer's start, a length of -1 stands for null."""

    #: The whole record, its length prefix included.
    record_start: Ints
    record_len: Ints
    timestamp_deltas: Ints
    offset_deltas: Ints
    key_start: Ints
    key_len: Ints
    value_start: Ints
    value_len: Ints
    #: Where the number of headers lies; the headers follow it up to the record's end, and are not checked.
    headers_start: Ints

    def __len__(self) -> int:
        return len(self.record_start)


def record_starts(payload: Buffer, at: int, end: int, count: int | None, starts: list[int]) -> None:
    """Append to ``starts`` where each record lies of those that fill ``payload`` from ``at`` to ``end``.

    INVALID_RECORD when they do not fill it exactly, or are not ``count``, where that is known.
    """
    already = len(starts)
    at = _walk(payload, at, end, end - at, starts)
    found = len(starts) - already
    if at != end or count not in (None, found):
        raise _wrong_end(found, at - end, count)


def find_records(payload: Buffer, at: int, end: int, count: int) -> Ints:
    """Where each of the ``count`` records lies that fill ``payload`` from ``at`` to ``end``, as ``record_starts``.

    Records of one size are common, and then numpy finds them: if the record at ``at`` takes ``size`` bytes and the
    length prefix is the same ``size`` bytes further on, and so on, each is where the one before it ends. Where sizes
    change from record to record Python walks, for longer and longer before it looks for equal ones again; and it walks
    the few records of a small batch.
    """
    if count < _RUN_LEAST:
        few: list[int] = []
        record_starts(payload, at, end, count, few)
        return np.array(few, np.int64)
    data = np.frombuffer(payload, np.uint8)
    pieces: list[Ints] = []
    found, patience = 0, _WALK_LEAST
    while at < end and found < count:
        size, equal = _equal_sizes(data, at, end, count - found)
        if equal >= _RUN_LEAST:
            pieces.append(np.arange(at, at + size * equal, size, dtype=np.int64))
            at += size * equal
            found += equal
            patience = _WALK_LEAST
        else:
            starts: list[int] = []
            at = _walk(payload, at, end, min(patience, count - found), starts)
            pieces.append(np.array(starts, np.int64))
            found += len(starts)
            patience = min(2 * patience, _WALK_MOST)
    if at != end or found != count:
        raise _wrong_end(found, at - end, count)
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces) if pieces else np.empty(0, np.int64)


def _equal_sizes(data: Bytes, at: int, end: int, most: int) -> tuple[int, int]:
    """How many bytes the record at ``at`` takes, and how many there are from it on whose length is written the same."""
    prefix = data[at : min(at + VARINT_BYTES_MAX, end)].tobytes()
    try:
        length, taken = decode_varint(prefix, 0)
    except IndexError:
        raise invalid("a record is cut short") from None
    if length <= 0:
        raise invalid("a record without a length")
    size = taken + length
    most = min(most, (end - at) // size)
    equal, look = 0, _LOOK_LEAST
    first = data[at : at + taken]
    while equal < most:
        look = min(look, most - equal)
        begin = at + equal * size
        rows = data[begin : begin + look * size].reshape(look, size)
        same = rows[:, 0] == first[0]
        for column in range(1, taken):
            same &= rows[:, column] == first[column]
        if not same.all():
            return size, equal + int(same.argmin())
        equal += look
        look *= 4
    return size, equal


def _walk(payload: Buffer, at: int, end: int, most: int, starts: list[int]) -> int:
    """Append where records lie, from ``at`` on, at most so many; return where the last of them ends."""
    add = starts.append
    try:
        for _ in range(most):
            if at >= end:
                break
            add(at)
            size = payload[at]
            if size < 0x80:
                at += 1
            elif (high := payload[at + 1]) < 0x80:
                size = size & 0x7F | high << 7
                at += 2
            else:
                number, at = decode_varint(payload, at)
                size = number << 1
            if size & 1 or size <= 0:
                raise invalid("a record without a length")
            at += size >> 1
    except IndexError:
        raise invalid("a record is cut short") from None
    return at


def _wrong_end(found: int, past: int, count: int | None) -> ProtocolError:
    return invalid(f"{found} records that end {past} bytes past their batch, where {count} were promised")


def decode_columns(payload: Buffer, starts: list[int] | Ints | None = None) -> Columns:
    """The records of an uncompressed ``payload``: those at ``starts``, or all of them when it holds nothing else.

    INVALID_RECORD when a field runs out of its record.
    """
    if starts is None:
        starts = []
        record_starts(bytes(payload), 0, len(payload), None, starts)
    data = np.frombuffer(payload, np.uint8)
    record_start = np.asarray(starts, np.int64)
    if not len(record_start):
        nothing = record_start
        return Columns(*(nothing,) * 9)
    lengths, at = _varints(data, record_start)
    ends = at + lengths
    _require(ends <= len(data))
    timestamp_deltas, at = _varints(data, at + 1)
    offset_deltas, at = _varints(data, at)
    key_len, key_start = _varints(data, at)
    _require(key_len >= -1)
    at = key_start + np.maximum(key_len, 0)
    _require(at < ends)
    value_len, value_start = _varints(data, at)
    _require(value_len >= -1)
    headers_start = value_start + np.maximum(value_len, 0)
    _require(headers_start < ends)
    # No headers is the common case, and there the record must end.
    _require((data[headers_start] != 0) | (headers_start + 1 == ends))
    return Columns(
        record_start=record_start,
        record_len=ends - record_start,
        timestamp_deltas=timestamp_deltas,
        offset_deltas=offset_deltas,
        key_start=key_start,
        key_len=key_len,
        value_start=value_start,
        value_len=value_len,
        headers_start=headers_start,
    )


def _require(holds: npt.NDArray[np.bool_]) -> None:
    if not holds.all():
        raise invalid(f"record {int(np.argmin(holds))} of {len(holds)} has fields that do not fit it")


def _varints(data: Bytes, at: Ints) -> tuple[Ints, Ints]:
    """The zigzag numbers that start at each of ``at``, and where the next byte after each lies.

    Numbers of one and two bytes are decoded together; where there are longer ones, these cost a second look at them
    alone. Reading past the end repeats the last byte; the caller's checks of positions find that out.
    """
    low = data.take(at, mode="clip")
    following = at + 1
    is_longer = low >= 0x80
    if not is_longer.any():
        small = low.astype(np.int64)
        return (small >> 1) ^ -(small & 1), following
    high = data.take(following, mode="clip") * is_longer
    if (high < 0x80).all():
        short = high.astype(np.int64) << 7 | (low & np.uint8(0x7F))
        return (short >> 1) ^ -(short & 1), following + is_longer
    rows = np.flatnonzero(is_longer)
    raw = low.astype(np.uint64) & np.uint64(0x7F)
    for shift in range(7, VARINT_BYTES_MAX * 7, 7):
        byte = data.take(following[rows], mode="clip")
        raw[rows] |= (byte & np.uint8(0x7F)).astype(np.uint64) << np.uint64(shift)
        following[rows] += 1
        rows = rows[byte >= 0x80]
        if not len(rows):
            break
    else:
        raise invalid("a number runs on for more than ten bytes")
    return (raw >> np.uint64(1)).view(np.int64) ^ -(raw & np.uint64(1)).view(np.int64), following
