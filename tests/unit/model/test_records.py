"""Records against the builders and readers of other clients, and what is refused."""

import struct
import warnings
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from millstream.model.batch import (
    CONTROL,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    crc_holds,
    header_at,
)
from millstream.model.compression import CODECS
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.records import (
    ABORT,
    COMMIT,
    Record,
    assemble,
    check_records,
    control_kind,
    coordinator_epoch,
    decode_batch,
    encode_batch,
    encode_marker,
    encode_record,
    recompress,
)
from tests.batches import checked_batches

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # It reads its schemas in a way Python will drop.
    from kafka.record.default_records import DefaultRecordBatch as PythonBatch

T = 1_700_000_000_000
RECORDS = [
    Record(0, T, b"key", b"value", (("trace", b"1"), ("none", None), ("empty", b""))),
    Record(1, T + 5, None, b"v" * 300),
    Record(2, T - 70_000, b"k" * 200, None),
    Record(3, T + (1 << 40), b"", b""),
    Record(4, T, None, None, (("größe", b"\x00\xff"),)),
]


def refusal_of(batch: bytes | bytearray) -> ErrorCode:
    with pytest.raises(ProtocolError) as refusal:
        decode_batch(batch)
    return refusal.value.code


def batch_of(payload: bytes, count: int = 1) -> bytearray:
    header = header_at(encode_batch([Record(0, T)]))
    return assemble(header._replace(record_count=count, last_offset_delta=count - 1), payload)


@pytest.mark.parametrize("compression", CODECS)
def test_records_survive_a_round_trip(compression: int) -> None:
    batch = encode_batch(RECORDS, compression=compression)
    assert decode_batch(batch) == RECORDS
    assert [position for position, _ in checked_batches(batch)] == [0]


@pytest.mark.parametrize("compression", CODECS)
def test_other_clients_read_what_we_write(compression: int) -> None:
    batch = encode_batch(RECORDS, compression=compression, producer_id=7, producer_epoch=1, base_sequence=3)
    readers: list[Any] = [DefaultRecordBatch(bytes(batch))]
    if compression < 2:  # Where kafka-python needs no library of its own.
        readers.append(PythonBatch(bytes(batch)))
    for reader in readers:
        assert reader.validate_crc()
        assert reader.producer_id == 7
        assert reader.base_sequence == 3
        read = [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in reader]
        assert read == RECORDS


@pytest.mark.parametrize("compression", CODECS)
def test_we_read_what_aiokafka_writes(compression: int) -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=compression,
        is_transactional=True,
        producer_id=9,
        producer_epoch=2,
        base_sequence=11,
        batch_size=1 << 20,
    )
    for record in RECORDS:
        assert builder.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    batch = builder.build()
    header = header_at(batch)
    assert crc_holds(batch, 0, header)
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 11)
    assert decode_batch(batch) == RECORDS


def test_records_are_numbered_from_the_base_offset_whatever_they_carry() -> None:
    batch = encode_batch([Record(70, T), Record(90, T)], base_offset=500)
    assert [record.offset for record in decode_batch(batch)] == [500, 501]
    assert header_at(batch).last_offset == 501


def test_offsets_with_holes_are_kept_when_asked() -> None:
    batch = encode_batch([Record(70, T), Record(90, T)], base_offset=60, keep_offsets=True)
    assert [record.offset for record in decode_batch(batch)] == [70, 90]
    assert header_at(batch).last_offset == 90


def test_append_time_stands_for_every_record() -> None:
    batch = encode_batch(RECORDS, append_time_ms=T + 9)
    assert header_at(batch).attributes & LOG_APPEND_TIME
    assert {record.timestamp for record in decode_batch(batch)} == {T + 9}
    assert check_records(batch, 0, header_at(batch))[1:] == (T + 9, T + 9)


def test_a_batch_in_the_middle_of_a_buffer_is_read() -> None:
    first, second = encode_batch(RECORDS[:2]), encode_batch(RECORDS[2:], base_offset=2)
    assert decode_batch(memoryview(first + second), len(first)) == RECORDS[2:]


@pytest.mark.parametrize("kind", [ABORT, COMMIT])
def test_a_marker_is_read_by_a_client_as_what_it_is(kind: int) -> None:
    batch = encode_marker(kind, producer_id=4, producer_epoch=3, timestamp=T, coordinator_epoch=8, base_offset=77)
    header = header_at(batch)
    assert header.attributes == CONTROL | TRANSACTIONAL
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4, 3, -1)
    (record,) = decode_batch(batch)
    assert control_kind(record) == kind
    assert coordinator_epoch(record) == 8
    (theirs,) = PythonBatch(bytes(batch))
    assert (theirs.abort, theirs.commit) == (kind == ABORT, kind == COMMIT)


def test_a_control_record_without_a_type_is_refused() -> None:
    for broken in (Record(key=None), Record(key=b"\0\0\0")):
        with pytest.raises(ProtocolError):
            control_kind(broken)
    with pytest.raises(ProtocolError):
        coordinator_epoch(Record(value=b"\0"))


def test_null_keys_are_found() -> None:
    keyed = encode_batch([Record(0, T, b"a"), Record(1, T, b"")])
    unkeyed = encode_batch([Record(0, T, b"a"), Record(1, T, None)], compression=3)
    assert not check_records(keyed, 0, header_at(keyed)).has_null_key
    assert check_records(unkeyed, 0, header_at(unkeyed)).has_null_key


def test_the_bounds_of_timestamps_are_those_of_the_records() -> None:
    batch = encode_batch(RECORDS)
    assert check_records(batch, 0, header_at(batch))[1:] == (T - 70_000, T + (1 << 40))


@pytest.mark.parametrize("source", CODECS)
@pytest.mark.parametrize("target", CODECS)
def test_another_codec_changes_nothing_but_the_codec(source: int, target: int) -> None:
    batch = encode_batch(RECORDS, compression=source, base_offset=40, producer_id=5, producer_epoch=1, base_sequence=6)
    changed = recompress(b"junk" + batch, header_at(batch), target, at=4)
    old, new = header_at(batch), header_at(changed)
    assert new.compression == target
    assert new._replace(length=0, crc=0, attributes=0) == old._replace(length=0, crc=0, attributes=0)
    assert crc_holds(changed, 0, new)
    assert decode_batch(changed) == decode_batch(batch)


def test_offset_deltas_with_a_hole_are_refused_from_a_producer() -> None:
    batch = encode_batch([Record(0, T), Record(2, T)], keep_offsets=True)
    with pytest.raises(ProtocolError) as refusal:
        check_records(batch, 0, header_at(batch))
    assert refusal.value.code == ErrorCode.INVALID_RECORD


def test_records_that_are_not_what_they_claim_are_refused() -> None:
    good = encode_record(Record(0, T, b"key", b"value", (("h", b"x"),)), 0, 0)
    assert decode_batch(batch_of(good)) == [Record(0, T, b"key", b"value", (("h", b"x"),))]
    broken = {
        "a byte short": good[:-1],
        "a byte more": good + b"\0",
        "fewer than counted": b"",
        "length of zero": b"\0",
        "negative length": b"\x05" + good[1:],
        "length that never ends": b"\xff" * 11,
        "key past the record": good[:4] + b"\x7e" + good[5:],
        "key of length -2": good[:4] + b"\x03" + good[5:],
        "header without a name": encode_record(Record(0, T), 0, 0)[:-1] + b"\x02\x01\x01",
        "more headers than bytes": encode_record(Record(0, T), 0, 0)[:-1] + b"\x7e",
    }
    for what, payload in broken.items():
        if what.startswith(("header", "more")):
            payload = struct.pack("b", (len(payload) - 1) * 2) + payload[1:]
        assert refusal_of(batch_of(payload)) == ErrorCode.INVALID_RECORD, what


def test_every_cut_of_a_batch_is_refused_and_never_crashes() -> None:
    payload = bytes(encode_batch(RECORDS)[HEADER_BYTES:])
    for length in range(len(payload)):
        assert refusal_of(batch_of(payload[:length], len(RECORDS))) == ErrorCode.INVALID_RECORD
