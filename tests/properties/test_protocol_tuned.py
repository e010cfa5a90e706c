"""The hand-tuned codecs equal the compiled ones, and do handle the shapes they are for."""

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.model.errors import CorruptFrame
from millstream.protocol.codec import decode, encode
from millstream.protocol.compiler import compile_decoder, compile_encoder
from millstream.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from millstream.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from millstream.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from millstream.protocol.schema import Message
from millstream.protocol.tuned import TUNED_DECODERS, TUNED_ENCODERS
from tests.properties.strategies import valid

_DECODED = [(cls, version) for cls, each in TUNED_DECODERS.items() for version in range(each.first, each.last + 1)]
_ENCODED = [(cls, version) for cls, each in TUNED_ENCODERS.items() for version in range(each.first, each.last + 1)]

#: Once for each class and version, not for each example.
_COMPILED_DECODERS = {each: compile_decoder(*each) for each in _DECODED}
_COMPILED_ENCODERS = {each: compile_encoder(*each) for each in _ENCODED}

_INT16 = st.integers(-(2**15), 2**15 - 1)
_INT32 = st.integers(-(2**31), 2**31 - 1)
_INT64 = st.integers(-(2**63), 2**63 - 1)
_NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
_IDS = st.binary(min_size=16, max_size=16)


def _one(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(strategy, min_size=1, max_size=1)


def _produce_request(version: int) -> st.SearchStrategy[ProduceRequest]:
    records = st.binary(min_size=1 if version < 9 else 127, max_size=500)
    partition = st.builds(PartitionProduceData, index=_INT32, records=records)
    topic = st.builds(
        TopicProduceData,
        name=_NAMES if version < 13 else st.just(""),
        topic_id=_IDS if version > 12 else st.just(bytes(16)),
        partition_data=_one(partition),
    )
    return st.builds(ProduceRequest, acks=_INT16, timeout_ms=_INT32, topic_data=_one(topic))


def _fetch_request(version: int) -> st.SearchStrategy[FetchRequest]:
    partition = st.builds(
        FetchPartition,
        partition=_INT32,
        current_leader_epoch=_INT32,
        fetch_offset=_INT64,
        last_fetched_epoch=_INT32 if version > 11 else st.just(-1),
        log_start_offset=_INT64,
        partition_max_bytes=_INT32,
    )
    topic = st.builds(
        FetchTopic,
        topic=_NAMES if version < 13 else st.just(""),
        topic_id=_IDS if version > 12 else st.just(bytes(16)),
        partitions=_one(partition),
    )
    return st.builds(
        FetchRequest,
        replica_id=_INT32 if version < 15 else st.just(-1),
        max_wait_ms=_INT32,
        min_bytes=_INT32,
        max_bytes=_INT32,
        isolation_level=st.integers(-128, 127),
        session_id=_INT32,
        session_epoch=_INT32,
        topics=_one(topic),
    )


def _produce_response(version: int) -> st.SearchStrategy[ProduceResponse]:
    partition = st.builds(
        PartitionProduceResponse,
        index=_INT32,
        error_code=_INT16,
        base_offset=_INT64,
        log_append_time_ms=_INT64,
        log_start_offset=_INT64,
    )
    topic = st.builds(TopicProduceResponse, name=_NAMES, topic_id=_IDS, partition_responses=_one(partition))
    return st.builds(ProduceResponse, responses=_one(topic), throttle_time_ms=_INT32)


def _fetch_response(version: int) -> st.SearchStrategy[FetchResponse]:
    partition = st.builds(
        PartitionData,
        partition_index=_INT32,
        error_code=_INT16,
        high_watermark=_INT64,
        last_stable_offset=_INT64,
        log_start_offset=_INT64,
        preferred_read_replica=_INT32,
        aborted_transactions=st.sampled_from([None, []]),
        records=st.binary(min_size=1, max_size=20) | st.just(bytes(20_000)),
    )
    topic = st.builds(FetchableTopicResponse, topic=_NAMES, topic_id=_IDS, partitions=_one(partition))
    return st.builds(
        FetchResponse, throttle_time_ms=_INT32, error_code=_INT16, session_id=_INT32, responses=_one(topic)
    )


_COMMON_REQUESTS: dict[type[Message], Any] = {ProduceRequest: _produce_request, FetchRequest: _fetch_request}
_COMMON_RESPONSES: dict[type[Message], Any] = {ProduceResponse: _produce_response, FetchResponse: _fetch_response}


def _never(*_: Any) -> Any:
    raise AssertionError("the tuned codec gave up on the shape it is for")


def _joined(encoded: bytes | list[bytes]) -> bytes:
    return encoded if isinstance(encoded, bytes) else b"".join(encoded)


@pytest.mark.parametrize(("cls", "version"), _DECODED)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_tuned_decoder_equals_the_compiled_one(cls: type[Message], version: int, data: st.DataObject) -> None:
    """On any message, common or not, and on any cut or change of one: the same fields or the same refusal."""
    message = data.draw(valid(cls, version) | _COMMON_REQUESTS[cls](version))
    encoded = encode(message, version)
    compiled = _COMPILED_DECODERS[cls, version]
    assert decode(cls, encoded, version) == compiled(encoded, 0) == message
    at = data.draw(st.integers(0, len(encoded)))
    mutated = data.draw(
        st.sampled_from([encoded[:at], encoded[:at] + data.draw(st.binary(max_size=3)) + encoded[at + 1 :]])
    )
    assert _outcome(lambda: decode(cls, mutated, version)) == _outcome(lambda: compiled(mutated, 0))


def _outcome(attempt: Callable[[], Message]) -> Message | None:
    """What was decoded, or None where it was refused; the compiled function refuses by more than one exception."""
    try:
        return attempt()
    except (CorruptFrame, struct.error, IndexError, UnicodeDecodeError):
        return None


@pytest.mark.parametrize(("cls", "version"), _DECODED)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_a_tuned_decoder_handles_the_common_shape(cls: type[Message], version: int, data: st.DataObject) -> None:
    message = data.draw(_COMMON_REQUESTS[cls](version))
    tuned = TUNED_DECODERS[cls].make(version, _never)
    encoded = b"head" + encode(message, version)
    assert tuned(encoded, 4) == message
    assert tuned(memoryview(bytearray(encoded)), 4) == message


@pytest.mark.parametrize(("cls", "version"), _ENCODED)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_tuned_encoder_equals_the_compiled_one(cls: type[Message], version: int, data: st.DataObject) -> None:
    common = _COMMON_RESPONSES.get(cls)
    message = data.draw(valid(cls, version) | common(version) if common else valid(cls, version))
    assert encode(message, version) == _joined(_COMPILED_ENCODERS[cls, version](message))


@pytest.mark.parametrize(("cls", "version"), [each for each in _ENCODED if each[0] in _COMMON_RESPONSES])
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_a_tuned_encoder_handles_the_common_shape(cls: type[Message], version: int, data: st.DataObject) -> None:
    message = data.draw(_COMMON_RESPONSES[cls](version))
    tuned = TUNED_ENCODERS[cls].make(version, _never)
    assert _joined(tuned(message)) == _joined(_COMPILED_ENCODERS[cls, version](message))


@pytest.mark.parametrize("version", range(7, 14))
@pytest.mark.parametrize("replicas", [0, 1, 3, 126, 127, 200])
def test_metadata_of_any_number_of_replicas_equals_the_compiled_one(version: int, replicas: int) -> None:
    nodes = list(range(replicas))
    partitions = [
        MetadataResponsePartition(partition_index=index, leader_id=1, replica_nodes=nodes, isr_nodes=nodes[:index])
        for index in range(3)
    ]
    topics = [MetadataResponseTopic(name="t" * length, partitions=partitions) for length in (1, 126, 127)]
    message = MetadataResponse(cluster_id="c", topics=topics * 50)
    assert encode(message, version) == _COMPILED_ENCODERS[MetadataResponse, version](message)
    assert decode(MetadataResponse, encode(message, version), version) == message
