"""What the log promises, seen through bare Produce, Fetch, ListOffsets, Metadata and OffsetForLeaderEpoch requests."""

from __future__ import annotations

import struct
import threading
import time

import pytest

from tests.compatibility.conftest import NewTopic
from tests.compatibility.connections import Connections, metadata
from tests.compatibility.drivers import Driver
from tests.compatibility.wire import (
    FETCH,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    METADATA,
    OFFSET_FOR_LEADER_EPOCH,
    PRODUCE,
    Wire,
    batches,
    compact_string,
    fetch,
    fetch_body,
    fetched,
    produce,
    produce_body,
    record_batch,
    string,
    varint,
)

OFFSET_OUT_OF_RANGE, CORRUPT_MESSAGE, UNKNOWN_TOPIC, INVALID_TOPIC, INVALID_RECORD = 1, 2, 3, 17, 87
INVALID_TIMESTAMP, OUT_OF_ORDER_SEQUENCE, INVALID_PRODUCER_EPOCH = 32, 45, 47
COORDINATOR_LOAD_IN_PROGRESS = 14
GONE = {3, 6}  # unknown topic, or no longer its leader


def batch(*values: bytes, producer: tuple[int, int, int] = (-1, -1, -1)) -> bytes:
    return bytes(record_batch(values, producer=producer, timestamp_ms=time.time_ns() // 1_000_000))


def new_producer(wire: Wire) -> tuple[int, int]:
    """An id and its epoch; a broker of Kafka's own that has just started asks for patience first."""
    deadline = time.monotonic() + 20
    while True:
        answer = wire.call(INIT_PRODUCER_ID, 0, string(None) + struct.pack(">i", 60_000))
        throttle_ms, code = answer.int32(), answer.int16()
        if code == 0:
            return answer.int64(), answer.int16()
        assert (throttle_ms, code) == (0, COORDINATOR_LOAD_IN_PROGRESS) and time.monotonic() < deadline
        time.sleep(0.05)


class TestWaiting:
    def test_a_fetch_with_nothing_to_read_answers_at_its_deadline(self, leader: Wire, topic: str) -> None:
        began = time.monotonic()
        found = fetch(leader, topic, 0, wait_ms=500)
        assert (found.code, found.high_watermark, found.records) == (0, 0, b"")
        assert 0.45 <= time.monotonic() - began < 2

    def test_a_fetch_that_need_not_wait_answers_at_once(self, leader: Wire, topic: str) -> None:
        began = time.monotonic()
        assert fetch(leader, topic, 0, wait_ms=0).records == b""
        produce(leader, topic, batch(b"x"))
        assert batches(fetch(leader, topic, 0, wait_ms=10_000).records)
        assert time.monotonic() - began < 2

    @pytest.mark.parametrize("partition", [0, 1])
    def test_a_waiting_fetch_is_woken_by_a_write_to_any_of_its_partitions(
        self, connections: Connections, new_topic: NewTopic, partition: int
    ) -> None:
        topic = new_topic(partitions=2, together=True)
        reader, writer = connections.to_leader(topic), connections.to_leader(topic)
        began = time.monotonic()
        timer = threading.Timer(0.2, produce, (writer, topic, batch(b"x")), {"partition": partition})
        timer.start()
        found = fetched(reader.call(FETCH, 4, fetch_body(topic, 0, wait_ms=8_000, partitions=(0, 1))))
        timer.join()
        assert len(batches(found[partition].records)) == 1
        assert 0.15 <= time.monotonic() - began < 3

    def test_a_fetch_waits_until_enough_bytes_are_there(
        self, leader: Wire, connections: Connections, topic: str
    ) -> None:
        small = batch(b"x" * 100)
        asked = leader.send(FETCH, 4, fetch_body(topic, 0, wait_ms=8_000, bytes_min=3 * len(small)))
        writer = connections.to_leader(topic)
        for _ in range(3):
            assert produce(writer, topic, small).code == 0
        answered, answer = leader.receive()
        assert answered == asked and len(batches(fetched(answer)[0].records)) == 3

    def test_a_fetch_waiting_on_a_topic_that_is_deleted_is_let_go(self, leader: Wire, seed: Driver, topic: str) -> None:
        began = time.monotonic()
        asked = leader.send(FETCH, 4, fetch_body(topic, 0, wait_ms=8_000))
        seed.delete_topic(topic)
        answered, answer = leader.receive()
        assert answered == asked and fetched(answer)[0].code in GONE
        assert time.monotonic() - began < 4

    def test_an_error_is_not_waited_upon(self, leader: Wire, topic: str) -> None:
        began = time.monotonic()
        assert fetch(leader, topic, 5, wait_ms=8_000).code == OFFSET_OUT_OF_RANGE
        assert time.monotonic() - began < 2


class TestLimits:
    def test_the_first_batch_comes_whole_however_small_the_limit(self, leader: Wire, topic: str) -> None:
        large, after = batch(b"x" * 50_000), batch(b"y")
        for each in (large, after):
            produce(leader, topic, each)
        found = fetch(leader, topic, 0, partition_bytes_max=1)
        assert len(found.records) == len(large) and batches(found.records)[0].count == 1

    def test_an_answer_stays_within_its_limit(self, leader: Wire, topic: str) -> None:
        for _ in range(10):
            produce(leader, topic, batch(b"x" * 1_000))
        assert len(fetch(leader, topic, 0, partition_bytes_max=5_000).records) <= 5_000

    def test_the_limit_of_the_whole_answer_holds_over_partitions(
        self, connections: Connections, new_topic: NewTopic
    ) -> None:
        topic = new_topic(partitions=3, together=True)
        leader = connections.to_leader(topic)
        for partition in range(3):
            produce(leader, topic, batch(b"x" * 5_000), partition=partition)
        found = fetched(leader.call(FETCH, 4, fetch_body(topic, 0, bytes_max=6_000, partitions=(0, 1, 2))))
        whole = [partition for partition, row in found.items() if batches(row.records)]
        assert sorted(found) == [0, 1, 2] and len(whole) == 1


class TestRefusals:
    def test_a_batch_with_a_bad_checksum(self, leader: Wire, topic: str) -> None:
        broken = bytearray(batch(b"x"))
        broken[-1] ^= 0xFF
        assert produce(leader, topic, bytes(broken)).code == CORRUPT_MESSAGE
        assert produce(leader, topic, batch(b"x")).base_offset == 0

    @pytest.mark.parametrize("magic", [0, 1])
    def test_a_batch_of_an_old_format(self, leader: Wire, topic: str, magic: int) -> None:
        old = bytearray(batch(b"x"))
        old[16] = magic
        assert produce(leader, topic, bytes(old)).code == INVALID_RECORD

    def test_more_than_one_batch_for_a_partition(self, leader: Wire, topic: str) -> None:
        assert produce(leader, topic, batch(b"x") + batch(b"y")).code == INVALID_RECORD

    def test_one_partitions_refusal_does_not_spoil_anothers_write(
        self, connections: Connections, new_topic: NewTopic
    ) -> None:
        topic = new_topic(partitions=2, together=True)
        broken = bytearray(batch(b"x"))
        broken[-1] ^= 0xFF
        rows = [struct.pack(">ii", index, len(raw)) + raw for index, raw in ((0, bytes(broken)), (1, batch(b"y")))]
        body = string(None) + struct.pack(">hii", -1, 10_000, 1) + string(topic) + struct.pack(">i", 2)
        answer = connections.to_leader(topic).call(PRODUCE, 3, body + b"".join(rows))
        assert (answer.int32(), answer.string(), answer.int32()) == (1, topic, 2)
        found = {}
        for _ in range(2):
            index, code, offset, _ = answer.int32(), answer.int16(), answer.int64(), answer.int64()
            found[index] = (code, offset)
        assert found == {0: (CORRUPT_MESSAGE, -1), 1: (0, 0)}

    def test_an_unknown_partition(self, leader: Wire, topic: str) -> None:
        assert produce(leader, topic, batch(b"x"), partition=9).code == UNKNOWN_TOPIC
        found = fetched(leader.call(FETCH, 4, fetch_body(topic, 0, partitions=(9,))))
        assert found[9].code == UNKNOWN_TOPIC

    @pytest.mark.parametrize(
        ("code", "change"),
        [
            (INVALID_RECORD, {"attributes": 0x20}),  # control batches are the broker's
            (INVALID_RECORD, {"count": 3}),
            (INVALID_RECORD, {"count": 0}),
            (INVALID_RECORD, {"last_delta": 5}),
        ],
        ids=["control", "too many", "none", "gap"],
    )
    def test_a_batch_whose_header_cannot_be(self, leader: Wire, topic: str, code: int, change: dict[str, int]) -> None:
        raw = record_batch([b"x", b"y"], timestamp_ms=time.time_ns() // 10**6, **change)  # type: ignore[arg-type]
        assert produce(leader, topic, bytes(raw)).code == code
        assert fetch(leader, topic, 0).high_watermark == 0

    def test_a_timestamp_too_far_ahead(self, leader: Wire, topic: str) -> None:
        later_ms = time.time_ns() // 10**6 + 2 * 3_600_000
        assert produce(leader, topic, bytes(record_batch([b"x"], timestamp_ms=later_ms))).code == INVALID_TIMESTAMP

    def test_a_record_without_a_timestamp_is_taken(self, leader: Wire, topic: str) -> None:
        assert produce(leader, topic, bytes(record_batch([b"x"], timestamp_ms=-1))).code == 0

    def test_a_partition_of_one_replica_is_never_asked_for_two(
        self, connections: Connections, new_topic: NewTopic
    ) -> None:
        topic = new_topic(replicas=1, min_insync_replicas="2")
        assert produce(connections.to_leader(topic), topic, batch(b"x"), acks=-1).code == 0

    def test_a_keyless_record_on_a_compacted_topic_at_an_old_version(
        self, connections: Connections, new_topic: NewTopic
    ) -> None:
        """aiokafka and kafkajs stop at v7, from before the code was made."""
        topic = new_topic(cleanup_policy="compact")
        body = produce_body(topic, bytes(record_batch([b"v"], key=None, timestamp_ms=time.time_ns() // 10**6)), acks=-1)
        answer = connections.to_leader(topic).call(PRODUCE, 7, body)
        assert (answer.int32(), answer.string(), answer.int32(), answer.int32()) == (1, topic, 1, 0)
        assert answer.int16() == INVALID_RECORD


class TestIdempotence:
    def test_a_batch_sent_again_is_kept_once_and_answered_alike(self, leader: Wire, topic: str) -> None:
        producer_id, epoch = new_producer(leader)
        sent = [batch(b"a", b"b", producer=(producer_id, epoch, 2 * i)) for i in range(5)]
        first = [produce(leader, topic, each) for each in sent]
        assert [(row.code, row.base_offset) for row in first] == [(0, 0), (0, 2), (0, 4), (0, 6), (0, 8)]
        again = [produce(leader, topic, each) for each in sent]
        assert [(row.code, row.base_offset) for row in again] == [(0, 0), (0, 2), (0, 4), (0, 6), (0, 8)]
        assert fetch(leader, topic, 0).high_watermark == 10

    def test_a_gap_in_the_sequence_is_refused(self, leader: Wire, topic: str) -> None:
        producer_id, epoch = new_producer(leader)
        assert produce(leader, topic, batch(b"a", producer=(producer_id, epoch, 0))).code == 0
        assert produce(leader, topic, batch(b"c", producer=(producer_id, epoch, 2))).code == OUT_OF_ORDER_SEQUENCE
        assert produce(leader, topic, batch(b"b", producer=(producer_id, epoch, 1))).base_offset == 1

    def test_an_older_epoch_is_refused(self, leader: Wire, topic: str) -> None:
        producer_id, epoch = new_producer(leader)
        assert produce(leader, topic, batch(b"a", producer=(producer_id, epoch + 1, 0))).code == 0
        assert produce(leader, topic, batch(b"b", producer=(producer_id, epoch, 1))).code == INVALID_PRODUCER_EPOCH

    def test_a_newer_epoch_starts_its_sequence_at_zero(self, leader: Wire, topic: str) -> None:
        producer_id, epoch = new_producer(leader)
        assert produce(leader, topic, batch(b"a", producer=(producer_id, epoch, 0))).code == 0
        assert produce(leader, topic, batch(b"b", producer=(producer_id, epoch + 1, 7))).code == OUT_OF_ORDER_SEQUENCE
        assert produce(leader, topic, batch(b"b", producer=(producer_id, epoch + 1, 0))).base_offset == 1

    def test_no_two_producers_share_an_id(self, wire: Wire) -> None:
        assert len({new_producer(wire)[0] for _ in range(50)}) == 50


class TestTimes:
    def test_the_answer_tells_the_append_time_only_where_the_broker_set_it(
        self, leader: Wire, topic: str, connections: Connections, new_topic: NewTopic
    ) -> None:
        assert produce(leader, topic, batch(b"x")).append_time_ms == -1
        other = new_topic(message_timestamp_type="LogAppendTime")
        before_ms = time.time_ns() // 1_000_000
        stamped = produce(connections.to_leader(other), other, bytes(record_batch([b"x"])))
        assert before_ms <= stamped.append_time_ms <= time.time_ns() // 1_000_000

    def test_list_offsets_tells_the_record_and_its_own_time(self, leader: Wire, topic: str) -> None:
        for timestamp_ms in (1_000_000, 2_000_000, 3_000_000):
            produce(leader, topic, bytes(record_batch([b"x", b"y"], timestamp_ms=timestamp_ms)))
        assert list_offset(leader, topic, 1_500_000) == (0, 2_000_000, 2)
        assert list_offset(leader, topic, 3_000_001) == (0, -1, -1)
        assert list_offset(leader, topic, -1) == (0, -1, 6)
        assert list_offset(leader, topic, -2) == (0, -1, 0)
        assert list_offset(leader, topic, 0, partition=5)[0] == UNKNOWN_TOPIC


def list_offset(wire: Wire, topic: str, timestamp: int, *, partition: int = 0) -> tuple[int, int, int]:
    body = struct.pack(">ii", -1, 1) + string(topic) + struct.pack(">iiq", 1, partition, timestamp)
    answer = wire.call(LIST_OFFSETS, 1, body)
    assert (answer.int32(), answer.string(), answer.int32(), answer.int32()) == (1, topic, 1, partition)
    return answer.int16(), answer.int64(), answer.int64()


class TestLeaderEpochs:
    @pytest.mark.parametrize("version", [2, 3])
    def test_the_end_of_the_current_epoch_is_the_end_of_the_log(self, leader: Wire, topic: str, version: int) -> None:
        produce(leader, topic, batch(b"a", b"b"))
        epoch = batches(fetch(leader, topic, 0).records)[0].leader_epoch
        assert epoch >= 0
        replica = struct.pack(">i", -1) if version >= 3 else b""
        row = struct.pack(">iiii", 1, 0, -1, epoch)
        answer = leader.call(OFFSET_FOR_LEADER_EPOCH, version, replica + struct.pack(">i", 1) + string(topic) + row)
        assert (answer.int32(), answer.int32(), answer.string(), answer.int32()) == (0, 1, topic, 1)
        assert (answer.int16(), answer.int32(), answer.int32(), answer.int64()) == (0, 0, epoch, 2)

    def test_an_epoch_yet_to_come_has_no_end(self, leader: Wire, topic: str) -> None:
        produce(leader, topic, batch(b"a"))
        row = varint(2) + struct.pack(">iii", 0, -1, 1_000_000) + b"\x00"
        body = struct.pack(">i", -1) + varint(2) + compact_string(topic) + row + b"\x00" + b"\x00"
        answer = leader.call(OFFSET_FOR_LEADER_EPOCH, 4, body, tags=b"\x00")
        answer.tags()
        assert (answer.int32(), answer.varint()) == (0, 2)
        assert answer.take(answer.varint() - 1).decode() == topic
        assert answer.varint() == 2
        assert (answer.int16(), answer.int32(), answer.int32(), answer.int64()) == (0, 0, -1, -1)


class TestMetadata:
    def test_an_unknown_topic_is_created_when_that_is_allowed(self, wire: Wire, seed: Driver, name: str) -> None:
        assert topic_code(wire, name, is_creation_allowed=False) == UNKNOWN_TOPIC
        assert name not in seed.list_topics()
        deadline = time.monotonic() + 10
        while topic_code(wire, name, is_creation_allowed=True) != 0:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert name in seed.list_topics()

    def test_a_name_that_no_topic_may_have_is_not_created(self, wire: Wire) -> None:
        assert topic_code(wire, "a/b", is_creation_allowed=True) == INVALID_TOPIC

    def test_none_means_all_topics_and_an_empty_list_none(self, leader: Wire, topic: str) -> None:
        assert topic.encode() in leader.call(METADATA, 1, struct.pack(">i", -1)).raw
        assert topic.encode() not in leader.call(METADATA, 1, struct.pack(">i", 0)).raw
        assert topic.encode() in leader.call(METADATA, 0, struct.pack(">i", 0)).raw


def topic_code(wire: Wire, topic: str, *, is_creation_allowed: bool) -> int:
    """The error code of one topic's row in a Metadata v4 answer."""
    answer = wire.call(METADATA, 4, struct.pack(">i", 1) + string(topic) + struct.pack(">b", is_creation_allowed))
    return metadata(answer, topic).code
