"""The records of ``__consumer_offsets``, held against those that Apache Kafka wrote."""

from typing import TypeVar

import pytest

from millstream.coordination.schemas.consumer_offsets import (
    FORMAT,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_record,
    encode_record,
)
from millstream.coordination.schemas.record import CoordinatorRecord
from millstream.protocol.schema import Value
from tests.unit.coordination.schemas.recorded import RecordedRecord, recorded

RECORDED = recorded("__consumer_offsets")
DECODED = [decode_record(each.key, each.value) for each in RECORDED]


_V = TypeVar("_V", bound=Value)


def _values(kind: type[_V], group: str) -> list[_V]:
    """What was written of one kind for a group, tombstones left out; the group is the first field of every key."""
    return [record.value for record in DECODED if isinstance(record.value, kind) and record.key[0] == group]


@pytest.mark.parametrize("record", RECORDED, ids=lambda each: each.key.hex())
def test_what_kafka_wrote_decodes_and_encodes_to_itself(record: RecordedRecord) -> None:
    assert encode_record(decode_record(record.key, record.value)) == (record.key, record.value)


def test_kafka_wrote_every_kind_of_record_and_of_tombstone() -> None:
    """All but the value of ConsumerGroupPartitionMetadata, which Kafka only ever deletes by now."""
    kinds = {int.from_bytes(each.key[:2], "big") for each in RECORDED if each.value is not None}
    assert kinds == {1, 2, 3, 5, 6, 7, 8, 16}
    assert {int.from_bytes(each.key[:2], "big") for each in RECORDED if each.value is None} == {*kinds, 4}


def test_an_offset() -> None:
    value, *_ = _values(OffsetCommitValue, "classic")
    (topic,) = _values(ConsumerGroupTargetAssignmentMemberValue, "consumer")[0].topic_partitions
    assert (value.offset, value.leader_epoch, value.metadata, value.topic_id) == (1, 0, "", topic.topic_id)


def test_an_offset_committed_in_a_transaction_has_no_topic_id() -> None:
    value, *_ = _values(OffsetCommitValue, "copier")
    assert (value.offset, value.topic_id) == (1, bytes(16))


def test_a_classic_group() -> None:
    begun, settled, *_ = _values(GroupMetadataValue, "classic")
    assert begun == GroupMetadataValue(current_state_timestamp=begun.current_state_timestamp)
    (member,) = settled.members
    assert (settled.protocol_type, settled.generation, settled.protocol) == ("consumer", 1, "range")
    assert (settled.leader, member.group_instance_id) == (member.member_id, "instance-1")
    assert (member.client_id, member.client_host) == ("rdkafka", "/127.0.0.1")
    assert (member.session_timeout, member.rebalance_timeout) == (45_000, 300_000)
    assert b"in" in member.subscription
    assert b"in" in member.assignment


def test_the_members_of_a_consumer_group_speak_either_protocol() -> None:
    by_regex, classic, *_ = _values(ConsumerGroupMemberMetadataValue, "consumer")
    assert (by_regex.rack_id, by_regex.subscribed_topic_regex) == ("rack-1", "(^i.$)")
    assert by_regex.classic_member_metadata is None
    assert classic.classic_member_metadata is not None
    assert classic.classic_member_metadata.session_timeout_ms == 45_000
    assert [each.name for each in classic.classic_member_metadata.supported_protocols] == ["cooperative-sticky"]


def test_a_member_that_has_partitions_to_give_back() -> None:
    giving, *_ = (each for each in _values(ConsumerGroupCurrentMemberAssignmentValue, "consumer") if each.state == 1)
    (kept,), (revoked,) = giving.assigned_partitions, giving.partitions_pending_revocation
    assert {*kept.partitions, *revoked.partitions} == {0, 1}
    assert (kept.assignment_epochs, revoked.assignment_epochs) == ([2], [2])


def test_an_offset_that_expires_is_kept_in_the_version_that_can_say_so() -> None:
    value = OffsetCommitValue(offset=7, metadata="m", commit_timestamp=1, expire_timestamp=2)
    _, encoded = encode_record(CoordinatorRecord(OffsetCommitKey("g", "t", 0), value))
    assert encoded is not None
    assert encoded[:2] == b"\0\1"
    assert decode_record(bytes.fromhex("0001 0001 67 0001 74 00000000"), encoded).value == value


@pytest.mark.parametrize("version", range(5))
def test_an_offset_in_every_version_kafka_ever_wrote(version: int) -> None:
    record = CoordinatorRecord(OffsetCommitKey("g", "t", 0), OffsetCommitValue(offset=7, metadata="m"))
    assert decode_record(*FORMAT.encode(record, version)) == record


def test_the_oldest_key_of_an_offset_is_that_of_today() -> None:
    key, value = encode_record(CoordinatorRecord(OffsetCommitKey("g", "t", 3), OffsetCommitValue(offset=7)))
    assert decode_record(b"\0\0" + key[2:], value).key == OffsetCommitKey("g", "t", 3)


def test_a_classic_member_is_told_from_a_consumer_even_with_nothing_to_say() -> None:
    """To Kafka a member whose classic part is absent, not null, would be a classic one."""
    key = ConsumerGroupMemberMetadataKey("g", "m")
    for classic in (None, ClassicMemberMetadata(), ClassicMemberMetadata(supported_protocols=[ClassicProtocol()])):
        record = CoordinatorRecord(key, ConsumerGroupMemberMetadataValue(classic_member_metadata=classic))
        encoded = encode_record(record)
        assert encoded[1] is not None
        assert (encoded[1][-4:] == b"\1\0\1\0") == (classic is None)
        assert decode_record(*encoded) == record


def test_keys_of_different_types_are_never_the_same() -> None:
    alike = [GroupMetadataKey("g"), ConsumerGroupMetadataKey("g"), ConsumerGroupTargetAssignmentMetadataKey("g")]
    assert len(set(alike)) == 3
    assert len({ConsumerGroupTargetAssignmentMemberKey("g", "m"), ConsumerGroupRegularExpressionKey("g", "m")}) == 2
    assert OffsetCommitKey("g", "t", 0) == OffsetCommitKey("g", "t", 0)
    assert not OffsetCommitKey("g", "t", 0) != OffsetCommitKey("g", "t", 0)  # noqa: SIM202 - it has its own operator
    assert OffsetCommitKey("g", "t", 0) != OffsetCommitKey("g", "t", 1)
