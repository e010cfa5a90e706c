"""Frames of real clients: what they mean, and that we would have written the same bytes."""

import pytest

from millstream.protocol.codec import decode, encode
from millstream.protocol.headers import RequestHeader, decode_request_header, encode_request_header
from millstream.protocol.messages import REQUESTS
from millstream.protocol.messages.api_versions import ApiVersionsRequest
from millstream.protocol.messages.fetch import FetchRequest
from millstream.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from millstream.protocol.messages.produce import ProduceRequest
from tests.unit.protocol.recorded import RECORDED, RecordedFrame


def _recorded(client: str, request: str) -> tuple[RequestHeader, bytes]:
    (frame,) = (each.frame for each in RECORDED if each.client == client and each.request == request)
    return decode_request_header(frame), frame


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda each: f"{each.client}-{each.request}-v{each.version}")
def test_a_real_frame_decodes_and_encodes_to_itself(recorded: RecordedFrame) -> None:
    header = decode_request_header(recorded.frame)
    cls = REQUESTS[header.api_key]
    assert (cls.__name__, header.api_version) == (recorded.request, recorded.version)
    message = decode(cls, recorded.frame, header.api_version, header.body_at)
    encoded = encode_request_header(*header[:4]) + encode(message, header.api_version)
    assert encoded == recorded.frame


def test_what_librdkafka_says_of_itself() -> None:
    header, frame = _recorded("librdkafka", "ApiVersionsRequest")
    message = decode(ApiVersionsRequest, frame, header.api_version, header.body_at)
    assert (header.client_id, message.client_software_name) == ("rdkafka", "confluent-kafka-python")


def test_what_librdkafka_asks_about_a_topic() -> None:
    header, frame = _recorded("librdkafka", "MetadataRequest")
    message = decode(MetadataRequest, frame, header.api_version, header.body_at)
    assert message.topics is not None
    assert message.topics in ([], [MetadataRequestTopic(name="t")])


@pytest.mark.parametrize("client", ["librdkafka", "kafka-python", "aiokafka"])
def test_what_a_producer_sends(client: str) -> None:
    """One batch for partition 0 of t, as a view that starts with the batch's header."""
    header, frame = _recorded(client, "ProduceRequest")
    message = decode(ProduceRequest, frame, header.api_version, header.body_at)
    (topic,) = message.topic_data
    (partition,) = topic.partition_data
    assert partition.records is not None
    assert (topic.name, partition.index, partition.records[16]) == ("t", 0, 2)
    assert int.from_bytes(partition.records[8:12], "big") + 12 == len(partition.records)


@pytest.mark.parametrize("client", ["librdkafka", "kafka-python", "aiokafka"])
def test_what_a_consumer_asks_for(client: str) -> None:
    header, frame = _recorded(client, "FetchRequest")
    message = decode(FetchRequest, frame, header.api_version, header.body_at)
    (topic,) = message.topics
    assert message.replica_id == -1
    assert [each.fetch_offset for each in topic.partitions] == [0]
