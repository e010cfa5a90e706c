"""Writing: every codec, every acks, headers, nulls, timestamps, idempotence and the refusals a producer must hear."""

from __future__ import annotations

import time

import pytest

from tests.compatibility.clients import each_driver
from tests.compatibility.conftest import NewTopic
from tests.compatibility.connections import batches_of
from tests.compatibility.drivers import Driver
from tests.compatibility.drivers.base import (
    ALL_ACKS,
    CODECS,
    EARLIEST,
    LEADER_ACKS,
    NO_ACKS,
    Headers,
    Record,
    Refused,
)

UNKNOWN, MESSAGE_TOO_LARGE, INVALID_TIMESTAMP, INVALID_RECORD = -1, 10, 32, 87
CREATED_MS = 1_700_000_000_123
#: Clients that repeat a header's name lose nothing, except where noted in the tests.
HEADERS: Headers = (("a", b"1"), ("empty", b""), ("b", b"2"))


@each_driver("produce", "read")
@pytest.mark.parametrize("codec", CODECS)
def test_what_was_written_is_read_back(driver: Driver, topic: str, bootstrap: str, codec: str) -> None:
    sent = [Record(b"value %d " % i * 50, key=b"k%d" % i) for i in range(20)]
    assert driver.produce(topic, sent, codec=codec) == list(range(20))
    with driver.read(topic, EARLIEST) as reader:
        rows = reader.take(20)
    assert [row.offset for row in rows] == list(range(20))
    assert all(row.same_as(record) for row, record in zip(rows, sent, strict=True)), rows
    assert {CODECS[batch.codec] for batch in batches_of(bootstrap, topic)} == {codec}


@each_driver("produce", "read")
@pytest.mark.parametrize("acks", [NO_ACKS, LEADER_ACKS, ALL_ACKS])
def test_every_kind_of_acknowledgement_keeps_the_records(driver: Driver, topic: str, acks: int) -> None:
    offsets = driver.produce(topic, [Record(b"1"), Record(b"2")], acks=acks)
    if acks != NO_ACKS:
        assert offsets == [0, 1]
    with driver.read(topic, EARLIEST) as reader:
        assert [row.value for row in reader.take(2)] == [b"1", b"2"]


@each_driver("produce", "read")
def test_headers_keep_their_names_values_and_order(driver: Driver, topic: str) -> None:
    driver.produce(topic, [Record(b"v", headers=HEADERS), Record(b"w")])
    with driver.read(topic, EARLIEST) as reader:
        assert [row.headers for row in reader.take(2)] == [HEADERS, ()]


@each_driver("produce", "read")
def test_keys_and_values_may_be_null(driver: Driver, topic: str) -> None:
    sent = [Record(b"v", key=None), Record(None, key=b"k"), Record(b"v", key=b"k")]
    driver.produce(topic, sent)
    with driver.read(topic, EARLIEST) as reader:
        assert [(row.key, row.value) for row in reader.take(3)] == [(None, b"v"), (b"k", None), (b"k", b"v")]


@each_driver("produce", "read", where=lambda driver: driver.name != "kcat")
def test_empty_is_not_null_and_bytes_need_not_be_text(driver: Driver, topic: str) -> None:
    raw = bytes(range(256))
    driver.produce(topic, [Record(b"", key=b""), Record(raw, key=raw)])
    with driver.read(topic, EARLIEST) as reader:
        assert [(row.key, row.value) for row in reader.take(2)] == [(b"", b""), (raw, raw)]


@each_driver("produce", "read", where=lambda driver: driver.sets_timestamps)
def test_create_time_is_the_producers(driver: Driver, topic: str) -> None:
    sent = [Record(b"%d" % i, timestamp_ms=CREATED_MS + delta) for i, delta in enumerate((0, 5, -3))]
    driver.produce(topic, sent)
    with driver.read(topic, EARLIEST) as reader:
        assert [row.timestamp_ms for row in reader.take(3)] == [CREATED_MS, CREATED_MS + 5, CREATED_MS - 3]


@each_driver("produce", "read")
def test_create_time_is_now_when_the_producer_gives_none(driver: Driver, topic: str) -> None:
    before_ms = time.time_ns() // 1_000_000
    driver.produce(topic, [Record(b"v")])
    with driver.read(topic, EARLIEST) as reader:
        (row,) = reader.take(1)
    assert before_ms <= row.timestamp_ms <= time.time_ns() // 1_000_000


@each_driver("produce", "read")
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_log_append_time_is_the_brokers(driver: Driver, new_topic: NewTopic, bootstrap: str, codec: str) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    old_ms = CREATED_MS if driver.sets_timestamps else None
    before_ms = time.time_ns() // 1_000_000
    driver.produce(topic, [Record(b"1", timestamp_ms=old_ms), Record(b"2", timestamp_ms=old_ms)], codec=codec)
    after_ms = time.time_ns() // 1_000_000
    with driver.read(topic, EARLIEST) as reader:
        rows = reader.take(2)
    assert all(before_ms <= row.timestamp_ms <= after_ms for row in rows), rows
    assert all(batch.is_log_append_time for batch in batches_of(bootstrap, topic))


@each_driver("produce", "read")
def test_an_idempotent_producer_numbers_its_batches(driver: Driver, topic: str, bootstrap: str) -> None:
    assert driver.produce(topic, [Record(b"%d" % i) for i in range(5)], idempotent=True) == [0, 1, 2, 3, 4]
    assert driver.produce(topic, [Record(b"again")], idempotent=True) == [5]
    found = batches_of(bootstrap, topic)
    assert all(batch.producer_id >= 0 for batch in found)
    assert found[0].base_sequence == 0
    if driver.name != "kafkajs":  # It keeps no producer between two calls, but others take a new id each.
        assert found[0].producer_id != found[-1].producer_id


@each_driver("produce")
def test_a_record_beyond_max_message_bytes_is_refused(driver: Driver, new_topic: NewTopic) -> None:
    topic = new_topic(max_message_bytes="2000")
    driver.produce(topic, [Record(b"x" * 1500)])
    with pytest.raises(Refused) as refused:
        driver.produce(topic, [Record(b"x" * 2500)])
    assert refused.value.code == MESSAGE_TOO_LARGE
    assert driver.produce(topic, [Record(b"y" * 1500)])[0] in (1, -1)


@each_driver("produce")
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_compacted_topic_refuses_records_without_a_key(driver: Driver, new_topic: NewTopic, codec: str) -> None:
    topic = new_topic(cleanup_policy="compact")
    driver.produce(topic, [Record(b"v", key=b"k")], codec=codec)
    with pytest.raises(Refused) as refused:
        driver.produce(topic, [Record(b"v", key=None)], codec=codec)
    # aiokafka has no name for the code, which came after it.
    assert refused.value.code == (UNKNOWN if driver.name == "aiokafka" else INVALID_RECORD)


@each_driver("produce", where=lambda driver: driver.sets_timestamps)
def test_a_timestamp_out_of_the_topics_bounds_is_refused(driver: Driver, new_topic: NewTopic) -> None:
    topic = new_topic(message_timestamp_before_max_ms="3600000")
    with pytest.raises(Refused) as refused:
        driver.produce(topic, [Record(b"v", timestamp_ms=CREATED_MS)])
    assert refused.value.code == INVALID_TIMESTAMP
    driver.produce(topic, [Record(b"v")])


@each_driver("produce", "read")
def test_a_topics_own_codec_wins(driver: Driver, new_topic: NewTopic, bootstrap: str) -> None:
    topic = new_topic(compression_type="zstd")
    sent = [Record(b"value %d " % i * 20, key=b"k") for i in range(5)]
    driver.produce(topic, sent, codec="gzip")
    with driver.read(topic, EARLIEST) as reader:
        assert all(row.same_as(record) for row, record in zip(reader.take(5), sent, strict=True))
    assert {CODECS[batch.codec] for batch in batches_of(bootstrap, topic)} == {"zstd"}
