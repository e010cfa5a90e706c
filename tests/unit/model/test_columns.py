"""Columns by example; that they always agree with single records is a property, tested elsewhere."""

import pytest

from millstream.model.batch import HEADER_BYTES
from millstream.model.columns import decode_columns, find_records, record_starts
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.records import Record, encode_batch, encode_record

RECORDS = [
    Record(0, 1_000, b"key", b"v" * 200, (("h", b"1"),)),
    Record(1, 900, None, b""),
    Record(2, 1_000 + (1 << 40), b"", None),
]
PAYLOAD = bytes(encode_batch(RECORDS)[HEADER_BYTES:])


def test_each_field_of_each_record_is_found() -> None:
    columns = decode_columns(PAYLOAD)
    assert columns.offset_deltas.tolist() == [0, 1, 2]
    assert columns.timestamp_deltas.tolist() == [0, -100, 1 << 40]
    assert columns.key_len.tolist() == [3, -1, 0]
    assert columns.value_len.tolist() == [200, 0, -1]
    start = int(columns.value_start[0])
    assert PAYLOAD[start : start + 200] == b"v" * 200
    assert (columns.record_start + columns.record_len).tolist()[-1] == len(PAYLOAD)
    assert PAYLOAD[int(columns.headers_start[0])] == 2  # One header, zigzag.


def test_nothing_has_no_rows() -> None:
    assert len(decode_columns(b"")) == 0


def test_any_kind_of_buffer_is_read() -> None:
    for buffer in (bytearray(PAYLOAD), memoryview(PAYLOAD)):
        assert decode_columns(buffer).key_len.tolist() == [3, -1, 0]


def test_a_wrong_count_is_refused() -> None:
    for count in (2, 4):
        with pytest.raises(ProtocolError) as refusal:
            record_starts(PAYLOAD, 0, len(PAYLOAD), count, [])
        assert refusal.value.code == ErrorCode.INVALID_RECORD
        with pytest.raises(ProtocolError):
            find_records(memoryview(PAYLOAD), 0, len(PAYLOAD), count)


def test_the_few_records_of_a_small_batch_are_found() -> None:
    starts = decode_columns(PAYLOAD).record_start.tolist()
    assert find_records(memoryview(PAYLOAD), 0, len(PAYLOAD), 3).tolist() == starts


def test_every_cut_is_refused_or_ends_at_a_record() -> None:
    ends = {0, *(decode_columns(PAYLOAD).record_start + decode_columns(PAYLOAD).record_len).tolist()}
    for length in range(len(PAYLOAD)):
        if length in ends:
            decode_columns(PAYLOAD[:length])
        else:
            with pytest.raises(ProtocolError):
                decode_columns(PAYLOAD[:length])


def test_a_number_that_never_ends_is_refused() -> None:
    good = encode_record(Record(0, 0, b"k" * 20, b"v"), 0, 0)
    endless = good[:2] + b"\xff" * 12 + good[14:]
    with pytest.raises(ProtocolError):
        decode_columns(endless)
