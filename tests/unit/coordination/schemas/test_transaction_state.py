"""The records of ``__transaction_state``, held against those that Apache Kafka wrote."""

import pytest

from millstream.coordination.schemas.record import CoordinatorRecord
from millstream.coordination.schemas.transaction_state import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
    decode_record,
    encode_record,
)
from tests.unit.coordination.schemas.recorded import RecordedRecord, recorded

RECORDED = recorded("__transaction_state")


def _values(transactional_id: str) -> list[TransactionLogValue]:
    decoded = [decode_record(each.key, each.value) for each in RECORDED]
    return [each.value for each in decoded if each.key == TransactionLogKey(transactional_id) and each.value]


@pytest.mark.parametrize("record", RECORDED, ids=range(len(RECORDED)))
def test_what_kafka_wrote_decodes_and_encodes_to_itself(record: RecordedRecord) -> None:
    assert encode_record(decode_record(record.key, record.value)) == (record.key, record.value)


def test_a_commit_and_an_abort_of_a_client_that_knows_version_1_of_transactions() -> None:
    values = _values("librdkafka")
    assert [each.transaction_status for each in values] == [0, 1, 1, 2, 4, 1, 1, 3, 5]
    assert {(each.producer_epoch, each.client_transaction_version) for each in values} == {(0, 0)}
    assert (values[0].transaction_partitions, values[0].transaction_timeout_ms) == (None, 60_000)
    assert values[3].transaction_partitions == [
        PartitionsSchema(topic="__consumer_offsets", partition_ids=[0]),
        PartitionsSchema(topic="out", partition_ids=[0]),
    ]
    assert values[4].transaction_partitions == []


def test_the_epoch_rises_with_each_transaction_of_a_client_that_knows_version_2() -> None:
    values = _values("java")
    assert [(each.transaction_status, each.producer_epoch) for each in values[:7]] == [
        (0, 0),
        (1, 0),
        (2, 1),
        (4, 1),
        (1, 1),
        (2, 2),
        (4, 2),
    ]
    assert {each.client_transaction_version for each in values[1:]} == {2}


@pytest.mark.parametrize("version", [0, 1])
def test_both_versions_are_read(version: int) -> None:
    value = TransactionLogValue(producer_id=5, producer_epoch=2, transaction_status=1)
    record = CoordinatorRecord(TransactionLogKey("t"), value)
    encoded = encode_record(record, version)
    assert encoded[1] is not None
    assert encoded[1][1] == version
    assert decode_record(*encoded) == record
