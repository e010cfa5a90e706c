"""Committed offsets are read and written by the short way exactly as by the long one, whatever they are."""

from hypothesis import given
from hypothesis import strategies as st

from millstream.coordination.schemas import consumer_offsets
from millstream.coordination.schemas.consumer_offsets import FORMAT, OffsetCommitKey, OffsetCommitValue
from millstream.coordination.schemas.record import CoordinatorRecord
from millstream.coordination.schemas.tuned import decode_record, encode_record
from millstream.model.errors import CorruptFrame
from millstream.model.ids import ZERO_UUID

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
keys = st.builds(OffsetCommitKey, st.text(max_size=20), st.text(max_size=20), int32)
values = st.builds(
    OffsetCommitValue,
    offset=int64,
    leader_epoch=int32,
    metadata=st.one_of(st.just(""), st.text(max_size=40), st.text(min_size=120, max_size=140)),
    commit_timestamp=int64,
    expire_timestamp=st.one_of(st.just(-1), int64),
    topic_id=st.one_of(st.just(ZERO_UUID), st.binary(min_size=16, max_size=16)),
)
versions = st.sampled_from([0, 1, 2, 3, 4, 4, 4, 4])


def _outcome(read: object, key: bytes, value: bytes | None) -> object:
    assert callable(read)
    try:
        return read(key, value)
    except CorruptFrame as fault:
        return str(fault)


@given(keys, st.none() | values)
def test_an_offset_is_written_the_same(key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
    record = CoordinatorRecord(key, value)
    assert encode_record(record) == consumer_offsets.encode_record(record)


@given(keys, values, versions)
def test_an_offset_of_any_version_reads_the_same(key: OffsetCommitKey, value: OffsetCommitValue, version: int) -> None:
    on_disk = FORMAT.encode(CoordinatorRecord(key, value), version)
    read = decode_record(*on_disk)
    assert read == FORMAT.decode(*on_disk)
    assert type(read) is CoordinatorRecord and type(read.key) is OffsetCommitKey


@given(keys, values, versions, st.data())
def test_a_damaged_offset_reads_the_same(
    key: OffsetCommitKey, value: OffsetCommitValue, version: int, data: st.DataObject
) -> None:
    key_bytes, value_bytes = map(bytearray, FORMAT.encode(CoordinatorRecord(key, value), version))  # type: ignore[arg-type]
    for damaged in (key_bytes, value_bytes):
        if data.draw(st.booleans()):
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
        if data.draw(st.booleans()):
            del damaged[data.draw(st.integers(0, len(damaged))) :]
        if data.draw(st.booleans()):
            damaged += data.draw(st.binary(max_size=20))
    on_disk = bytes(key_bytes), bytes(value_bytes)
    assert _outcome(decode_record, *on_disk) == _outcome(FORMAT.decode, *on_disk)


@given(st.binary(max_size=30), st.none() | st.binary(max_size=40))
def test_any_bytes_read_the_same(key: bytes, value: bytes | None) -> None:
    assert _outcome(decode_record, key, value) == _outcome(FORMAT.decode, key, value)
    assert _outcome(decode_record, b"\0\1" + key, value) == _outcome(FORMAT.decode, b"\0\1" + key, value)
