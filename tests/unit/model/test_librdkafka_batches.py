"""Batches of librdkafka, through its own mock broker: what it writes we read, what we write it reads."""

import socket
import struct
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from millstream.model.batch import crc_holds, header_at
from millstream.model.compression import CODECS
from millstream.model.records import Record, check_records, decode_batch, encode_batch
from tests.batches import checked_batches

T = 1_700_000_000_000
RECORDS = [
    Record(0, T, b"key", b"value" * 300, (("trace", b"1"), ("none", None))),
    Record(1, T + 5, None, b"v" * 40_000),
    Record(2, T + 7, b"k" * 200, None),
    Record(3, T + 9, b"", b""),
]
COMPRESSIONS = [codec.name for codec in CODECS.values()]


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def ask(host: str, port: int, key: int, version: int, body: bytes) -> bytes:
    """One request by hand; what follows the response's header."""
    request = struct.pack(">hhi", key, version, 1) + text("test") + body
    with socket.create_connection((host, port), timeout=10) as peer:
        peer.sendall(struct.pack(">i", len(request)) + request)
        stream = peer.makefile("rb")
        (length,) = struct.unpack(">i", stream.read(4))
        return stream.read(length)[4:]


@pytest.fixture
def producer() -> Producer:
    """A producer that carries its own broker inside."""
    return Producer({"test.mock.num.brokers": 1, "linger.ms": 50, "log_level": 0})


def mock_broker(producer: Producer, topic: str) -> tuple[str, int]:
    (broker,) = producer.list_topics(topic, timeout=10).brokers.values()
    return broker.host, broker.port


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_we_read_what_librdkafka_writes(compression: str) -> None:
    producer = Producer({"test.mock.num.brokers": 1, "linger.ms": 50, "compression.type": compression, "log_level": 0})
    host, port = mock_broker(producer, "written")
    for record in RECORDS:
        producer.produce(
            "written", record.value, record.key, partition=0, timestamp=record.timestamp, headers=list(record.headers)
        )
    assert producer.flush(10) == 0
    partition = struct.pack(">iiqi", 1, 0, 0, 1 << 20)
    body = struct.pack(">iiiibi", -1, 1_000, 1, 1 << 20, 0, 1) + text("written") + partition
    answer = ask(host, port, 1, 4, body)
    at = 4 + 4 + len(text("written")) + 4 + 4 + 2 + 8 + 8
    (aborted,) = struct.unpack_from(">i", answer, at)
    at += 4 + 16 * max(aborted, 0)
    (length,) = struct.unpack_from(">i", answer, at)
    batch = answer[at + 4 : at + 4 + length]
    header = header_at(batch)
    assert crc_holds(batch, 0, header)
    assert CODECS[header.compression].name == compression
    assert decode_batch(batch) == RECORDS
    assert check_records(batch, 0, header).has_null_key


@pytest.mark.parametrize("compression", CODECS)
def test_librdkafka_reads_what_we_write(producer: Producer, compression: int) -> None:
    host, port = mock_broker(producer, "read")
    batch = bytes(encode_batch(RECORDS, compression=compression))
    assert len(list(checked_batches(batch))) == 1
    partition = struct.pack(">iii", 1, 0, len(batch)) + batch
    answer = ask(host, port, 0, 3, struct.pack(">hhii", -1, 1, 1_000, 1) + text("read") + partition)
    assert struct.unpack_from(">h", answer, 4 + len(text("read")) + 8) == (0,)
    consumer = Consumer({"bootstrap.servers": f"{host}:{port}", "group.id": "test", "check.crcs": True})
    try:
        consumer.assign([TopicPartition("read", 0, 0)])
        messages: list[Any] = consumer.consume(len(RECORDS), timeout=10)
    finally:
        consumer.close()
    assert [message.error() for message in messages] == [None] * len(RECORDS)
    read = [Record(m.offset(), m.timestamp()[1], m.key(), m.value(), tuple(m.headers() or ())) for m in messages]
    assert read == RECORDS
