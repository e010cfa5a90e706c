"""What Kafka refuses of administration and lookups, as raw bytes; each code was first seen from Apache Kafka."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from tests.compatibility.drivers import Driver
from tests.compatibility.wire import METADATA, Cursor, Wire, compact_string, string, varint
from tests.system.broker_process import BrokerProcess

LIST_OFFSETS, CREATE_TOPICS, DELETE_TOPICS, ALTER_CONFIGS, LOG_DIRS, TOPIC_PARTITIONS = 2, 19, 20, 33, 35, 75
NO_TAGS = b"\x00"
NO_ID = bytes(16)
UNSUPPORTED_VERSION, INVALID_ASSIGNMENT, INVALID_REQUEST = 35, 39, 42
TOPIC = 2


def array(*rows: bytes) -> bytes:
    return struct.pack(">i", len(rows)) + b"".join(rows)


def compact_array(*rows: bytes) -> bytes:
    return varint(len(rows) + 1) + b"".join(rows)


def compact_text(answer: Cursor) -> str | None:
    length = answer.varint() - 1
    return None if length < 0 else answer.take(length).decode()


def topic_rows(answer: Cursor) -> list[tuple[int, str | None]]:
    """Error and name of the topics in an answer to Metadata 10 or 11, none of which has partitions."""
    answer.tags()
    answer.int32()
    for _ in range(answer.varint() - 1):
        answer.int32()
        compact_text(answer)
        answer.int32()
        compact_text(answer)
        answer.tags()
    compact_text(answer)
    answer.int32()
    rows = []
    for _ in range(answer.varint() - 1):
        rows.append((answer.int16(), compact_text(answer)))
        answer.take(16)
        answer.int8()
        assert answer.varint() <= 1
        answer.int32()
        answer.tags()
    return rows


@pytest.mark.parametrize("version", [10, 11])
def test_a_topic_without_a_name_is_refused_before_ids_may_be_asked_for(wire: Wire, version: int) -> None:
    nameless = NO_ID + b"\x00" + NO_TAGS
    flags = b"\x00\x00\x00" if version == 10 else b"\x00\x00"
    answer = wire.call(METADATA, version, compact_array(nameless) + flags + NO_TAGS, tags=NO_TAGS)
    assert topic_rows(answer) == [(INVALID_REQUEST, "")]


def list_offset(wire: Wire, topic: str, timestamp: int, version: int) -> tuple[int, int]:
    """Error and offset; version 1 to 5 (without an epoch before 4)."""
    row = struct.pack(">i", 0) + (struct.pack(">i", -1) if version >= 4 else b"") + struct.pack(">q", timestamp)
    body = struct.pack(">i", -1) + (b"\x00" if version >= 2 else b"") + array(string(topic) + array(row))
    answer = wire.call(LIST_OFFSETS, version, body)
    if version >= 2:
        answer.int32()
    assert (answer.int32(), answer.string(), answer.int32(), answer.int32()) == (1, topic, 1, 0)
    error = answer.int16()
    answer.int64()
    return error, answer.int64()


@pytest.mark.parametrize("timestamp", [-3, -4, -5, -6, -7, -(2**63)])
def test_a_special_timestamp_is_refused_in_versions_that_do_not_know_it(
    leader: Wire, topic: str, timestamp: int
) -> None:
    assert list_offset(leader, topic, timestamp, 5) == (UNSUPPORTED_VERSION, -1)
    assert list_offset(leader, topic, -2, 5) == (0, 0)


def test_a_null_value_replaces_nothing(leader: Wire, topic: str) -> None:
    config = string("retention.ms") + string(None)
    resource = struct.pack(">b", TOPIC) + string(topic) + array(config)
    answer = leader.call(ALTER_CONFIGS, 1, array(resource) + b"\x00")
    answer.int32()
    assert (answer.int32(), answer.int16()) == (1, INVALID_REQUEST)


def test_a_topic_named_twice_is_not_deleted(leader: Wire, topic: str) -> None:
    answer = leader.call(DELETE_TOPICS, 3, array(string(topic), string(topic)) + struct.pack(">i", 5000))
    answer.int32()
    rows = [(answer.string(), answer.int16()) for _ in range(answer.int32())]
    assert set(rows) == {(topic, INVALID_REQUEST)}
    assert list_offset(leader, topic, -1, 5) == (0, 0)


def test_a_topic_named_by_name_and_id_or_by_neither_is_refused(leader: Wire, topic: str) -> None:
    neither = b"\x00" + NO_ID + NO_TAGS
    both = compact_string(topic) + b"x" * 16 + NO_TAGS
    for named in (neither, both):
        body = compact_array(named) + struct.pack(">i", 5000) + NO_TAGS
        answer = leader.call(DELETE_TOPICS, 6, body, tags=NO_TAGS)
        answer.tags()
        answer.int32()
        assert answer.varint() == 2
        compact_text(answer)
        answer.take(16)
        assert answer.int16() == INVALID_REQUEST


def test_a_partition_assigned_twice_is_refused(wire: Wire, seed: Driver, name: str) -> None:
    assignment = struct.pack(">i", 0) + array(struct.pack(">i", min(seed.describe_cluster().brokers)))
    topic = string(name) + struct.pack(">ih", -1, -1) + array(assignment, assignment) + array()
    answer = wire.call(CREATE_TOPICS, 4, array(topic) + struct.pack(">i", 5000) + b"\x01")
    answer.int32()
    assert (answer.int32(), answer.string(), answer.int16()) == (1, name, INVALID_ASSIGNMENT)


def test_log_directories_are_told_by_whole_paths(tmp_path: Path) -> None:
    with BrokerProcess(os.path.relpath(tmp_path)) as broker, Wire(broker.address) as wire:
        answer = wire.call(LOG_DIRS, 1, struct.pack(">i", -1))
        answer.int32()
        assert (answer.int32(), answer.int16(), answer.string()) == (1, 0, str(tmp_path))


@pytest.mark.parametrize("limit", [0, -1])
def test_a_page_of_partitions_has_at_least_one(leader: Wire, topic: str, limit: int) -> None:
    body = compact_array(compact_string(topic) + NO_TAGS) + struct.pack(">i", limit) + b"\xff" + NO_TAGS
    answer = leader.call(TOPIC_PARTITIONS, 0, body, tags=NO_TAGS)
    answer.tags()
    answer.int32()
    assert (answer.varint(), answer.int16(), compact_text(answer)) == (2, 0, topic)
    answer.take(17)
    assert answer.varint() == 2
