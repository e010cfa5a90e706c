"""A record as it is read."""

from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import Message

from millstream.client.application.errors import SerializationFailed
from millstream.client.application.record import record_maker
from millstream.client.application.serialization import deserializer
from millstream.model.ids import TopicPartition


def message(value: bytes | None = b"v", **more: Any) -> Message:
    return Message(topic="orders", partition=2, offset=7, key=b"k", value=value, timestamp=(1, 1_500), **more)


def test_a_record_has_all_of_its_message() -> None:
    record = record_maker(None, None)(message(headers=[("a", b"1"), ("a", b"2")]))
    assert (record.topic, record.partition, record.offset) == ("orders", 2, 7)
    assert record.topic_partition == TopicPartition("orders", 2)
    assert (record.key, record.value, record.raw_key, record.raw_value) == (b"k", b"v", b"k", b"v")
    assert record.timestamp_ms == 1_500
    assert record.timestamp == datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)
    assert record.headers == [("a", b"1"), ("a", b"2")]
    assert record.header("a") == b"2"
    assert record.header("b") is None
    assert "orders-2@7" in repr(record)


def test_a_value_is_decoded_once_and_when_looked_at() -> None:
    calls = []

    def decode(data: bytes) -> bytes:
        calls.append(data)
        return data * 2

    record = record_maker(None, decode)(message())
    assert calls == []
    assert (record.value, record.value, record.raw_value) == (b"vv", b"vv", b"v")
    assert calls == [b"v"]


def test_a_missing_value_is_not_decoded() -> None:
    assert record_maker(None, deserializer("json"))(message(None)).value is None


def test_what_cannot_be_decoded_is_named_and_still_there_raw() -> None:
    record = record_maker(None, deserializer("json"))(message(b"{"))
    with pytest.raises(SerializationFailed, match="the value at orders-2@7 cannot be decoded"):
        _ = record.value
    assert record.raw_value == b"{"
