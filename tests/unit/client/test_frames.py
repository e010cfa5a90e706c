"""Frames encoded once: what they hold, and where their answers say how it went."""

import asyncio
from typing import Any

import pytest

from millstream.client.frames import FetchFrame, ProduceFrame
from millstream.client.wire import Address, Connection
from millstream.model.ids import TopicPartition
from millstream.protocol.codec import decode, encode
from millstream.protocol.headers import decode_request_header, response_header
from millstream.protocol.messages.fetch import FetchRequest
from millstream.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

TOPIC_ID = bytes(range(16))


def connection_at(request: Any, version: int) -> Connection:
    """A connection to nobody, whose broker would take one version only."""
    connection = Connection(asyncio.new_event_loop(), Address("nobody", 1), "test")
    connection.loop.close()
    connection.versions = {request.API_KEY: (version, version)}
    return connection


@pytest.mark.parametrize("version", range(3, 14))
def test_the_error_code_is_found_in_every_versions_answer(version: int) -> None:
    frame = ProduceFrame(
        connection_at(ProduceRequest, version), TopicPartition("orders", 7), TOPIC_ID, b"records", acks=1
    )
    for code in (0, 6, 87, -1):
        row = PartitionProduceResponse(
            index=7,
            error_code=code,
            base_offset=1 << 40,
            record_errors=[BatchIndexAndErrorMessage(batch_index=0, batch_index_error_message="bad")],
            error_message="worse",
        )
        response = ProduceResponse(
            responses=[TopicProduceResponse(name="orders", topic_id=TOPIC_ID, partition_responses=[row])]
        )
        answer = response_header(ProduceRequest.API_KEY, version, 99) + encode(response, version)
        assert frame.error_code(memoryview(answer)) == code


@pytest.mark.parametrize("version", range(3, 14))
def test_a_produce_frame_decodes_to_the_request_it_stands_for(version: int) -> None:
    frame = ProduceFrame(
        connection_at(ProduceRequest, version), TopicPartition("orders", 7), TOPIC_ID, b"records", acks=-1
    ).frame
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header = decode_request_header(frame[4:])
    assert (header.api_key, header.api_version, header.client_id) == (0, version, "test")
    request = decode(ProduceRequest, frame[4:], version, header.body_at)
    assert request.acks == -1
    assert bytes(request.topic_data[0].partition_data[0].records or b"") == b"records"


@pytest.mark.parametrize("version", range(4, 19))
def test_a_fetch_frame_asks_for_the_offsets_given(version: int) -> None:
    fetch = FetchFrame(
        connection_at(FetchRequest, version), "orders", TOPIC_ID, [0, 3, 5], partition_bytes_max=1000, bytes_max=5000
    )
    for offsets in ({0: 0, 3: 1, 5: 2}, {0: 1 << 50, 3: 255, 5: 256}, {0: 7, 3: 7, 5: 7}):
        frame = fetch.at(offsets)
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        header = decode_request_header(frame[4:])
        request = decode(FetchRequest, frame[4:], version, header.body_at)
        rows = request.topics[0].partitions
        assert {row.partition: row.fetch_offset for row in rows} == offsets
        assert {row.partition_max_bytes for row in rows} == {1000}
        assert (request.max_bytes, request.min_bytes) == (5000, 1)


def test_topics_without_an_id_are_named() -> None:
    """An old broker tells no ids, and its newest versions are never used for such a topic."""
    tp = TopicPartition("orders", 0)
    frame = ProduceFrame(connection_at(ProduceRequest, 13), tp, bytes(16), b"", acks=1)
    assert frame.version == 12
    fetch = FetchFrame(connection_at(FetchRequest, 18), "orders", bytes(16), [0], partition_bytes_max=1, bytes_max=1)
    assert fetch.version == 12
