"""Snapshots of producer state, in Kafka's format."""

import pytest

from millstream.model.batch import NO_SEQUENCE
from millstream.storage.producer_snapshot import DamagedSnapshot, decode_snapshot, encode_snapshot
from millstream.storage.producer_state import Producer, RememberedBatch

#: What Apache Kafka's dump tool reads as: id 7, epoch 2, last sequence 715, last offset 715, delta 1, timestamp
#: 1700000003571, no coordinator, no transaction.
ENTRY = "00000000000000070002000002cb00000000000002cb000000010000018bcfe575f3ffffffffffffffffffffffff"


def producer() -> Producer:
    known = Producer(7, 2)
    known.batches = [RememberedBatch(700, 713, 700, 713, 1), RememberedBatch(714, 715, 714, 715, 1_700_000_003_571)]
    known.last_timestamp = 1_700_000_003_571
    return known


def test_a_snapshot_is_a_version_a_crc_and_an_entry_of_46_bytes_for_each_producer() -> None:
    data = encode_snapshot([producer()])
    assert data[:2].hex() == "0001"
    assert data[6:].hex() == "00000001" + ENTRY


def test_a_snapshot_keeps_the_last_batch_and_says_that_older_ones_may_exist() -> None:
    (read,) = decode_snapshot(encode_snapshot([producer()]))
    assert read.batches == producer().batches[-1:]
    assert (read.producer_id, read.epoch, read.last_timestamp) == (7, 2, 1_700_000_003_571)
    assert not read.has_history


def test_transactional_fields_survive() -> None:
    known = Producer(9, 1)
    known.coordinator_epoch, known.txn_first_offset, known.last_timestamp = 4, 1203, 5
    (read,) = decode_snapshot(encode_snapshot([known]))
    assert (read.coordinator_epoch, read.txn_first_offset, read.batches) == (4, 1203, [])
    assert read.last_sequence == NO_SEQUENCE
    assert read.has_history


def test_sequences_that_wrapped_survive() -> None:
    known = Producer(9, 1)
    known.batches = [RememberedBatch(2**31 - 1, 1, 10, 12, 5)]
    known.last_timestamp = 5
    (read,) = decode_snapshot(encode_snapshot([known]))
    assert read.batches == known.batches


def test_every_damaged_byte_and_every_cut_is_noticed() -> None:
    data = encode_snapshot([producer()])
    for at in range(len(data)):
        flipped = bytearray(data)
        flipped[at] ^= 0x10
        with pytest.raises(DamagedSnapshot):
            decode_snapshot(bytes(flipped))
        with pytest.raises(DamagedSnapshot):
            decode_snapshot(data[:at])


def test_no_producers_is_a_snapshot_too() -> None:
    assert decode_snapshot(encode_snapshot([])) == []
