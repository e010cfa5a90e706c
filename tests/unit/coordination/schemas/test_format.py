"""Records that are damaged, or of a kind we do not know, are refused with a reason."""

import pytest

from millstream.coordination.schemas.consumer_offsets import OffsetCommitKey, OffsetCommitValue, decode_record
from millstream.coordination.schemas.consumer_offsets import encode_record as encode_offsets
from millstream.coordination.schemas.record import CoordinatorRecord
from millstream.coordination.schemas.transaction_state import TransactionLogKey
from millstream.coordination.schemas.transaction_state import decode_record as decode_transaction
from millstream.model.errors import CorruptFrame

KEY = bytes.fromhex("0001 0001 67 0001 74 00000000")
VALUE = encode_offsets(CoordinatorRecord(OffsetCommitKey("g", "t", 0), OffsetCommitValue(offset=1)))[1]


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (b"", "the record of key :"),
        (b"\0", "key 00"),
        (bytes.fromhex("000a 0001 67"), "type 10 is not known"),
        (bytes.fromhex("ffff 0001 67"), "type -1 is not known"),
        (KEY[:-1], "key 0001"),
        (KEY + b"x", "12 bytes are claimed, 13 are there"),
        (bytes.fromhex("0002 ffff"), "a text of -1 bytes"),
        (bytes.fromhex("0002 0005 67"), "9 bytes are claimed, 5 are there"),
        (bytes.fromhex("0002 0001 ff"), "utf-8"),
    ],
)
def test_a_key_that_is_none(key: bytes, reason: str) -> None:
    for value in (None, VALUE):
        with pytest.raises(CorruptFrame, match=reason):
            decode_record(key, value)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "the record of key 000100016700017400000000: "),
        (b"\0", "the record of key 000100016700017400000000: "),
        (b"\0\5", "OffsetCommitValue v5 is not known"),
        (b"\xff\xff", "OffsetCommitValue v-1 is not known"),
        (b"\0\4\0\0", "OffsetCommitValue v4"),
    ],
)
def test_a_value_that_is_none(value: bytes, reason: str) -> None:
    with pytest.raises(CorruptFrame, match=reason):
        decode_record(KEY, value)


def test_the_same_number_means_another_key_in_another_topic() -> None:
    assert decode_transaction(bytes.fromhex("0000 0001 74"), None).key == TransactionLogKey("t")
    with pytest.raises(CorruptFrame):
        decode_record(bytes.fromhex("0000 0001 74"), None)


def test_a_value_is_written_with_its_own_key_alone() -> None:
    with pytest.raises(AssertionError, match="is no value of"):
        encode_offsets(CoordinatorRecord(OffsetCommitKey("g", "t", 0), TransactionLogKey("t")))
