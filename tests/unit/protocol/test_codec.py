"""The public functions: records uncopied, refusals in one exception, codecs made once."""

import pytest

from millstream.model.errors import CorruptFrame, ErrorCode
from millstream.protocol.codec import decode, decoder, encode, encode_parts, encoder
from millstream.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from millstream.protocol.messages.fetch import AbortedTransaction, FetchableTopicResponse, FetchResponse, PartitionData
from millstream.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from millstream.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


class FileSlice:
    """Stands for bytes of a file that nobody reads here."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size


def _produce(records: object) -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=records)
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=[partition])])


@pytest.mark.parametrize("version", [3, 9, 12])
def test_decoded_records_are_a_writable_view_of_the_frame(version: int) -> None:
    """Stamping an offset into the view changes the frame itself, so nothing was copied."""
    frame = bytearray(encode(_produce(b"records!"), version))
    records = decode(ProduceRequest, memoryview(frame), version).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    records[:3] = b"REC"
    assert b"RECords!" in frame


def test_records_of_a_read_only_frame_are_a_read_only_view() -> None:
    records = decode(ProduceRequest, encode(_produce(b"r"), 9), 9).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.readonly


@pytest.mark.parametrize("version", [4, 11, 12, 13, 18])
def test_slices_of_files_are_passed_on_as_they_are(version: int) -> None:
    first, second = FileSlice(1000), FileSlice(5)
    partitions = [
        PartitionData(partition_index=index, records=records, aborted_transactions=[AbortedTransaction(producer_id=1)])
        for index, records in enumerate([first, None, b"", second])
    ]
    parts = encode_parts(FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)]), version)
    assert [part for part in parts if not isinstance(part, bytes)] == [first, second]
    assert parts.index(first) == 1
    whole = b"".join(part if isinstance(part, bytes) else bytes(len(part)) for part in parts)
    for partition, size in zip(partitions, [1000, None, 0, 5], strict=True):
        partition.records = None if size is None else bytes(size)
    decoded = decode(FetchResponse, whole, version)
    assert [each.partitions for each in decoded.responses] == [partitions]


def test_a_message_without_records_is_one_part() -> None:
    message = ApiVersionsResponse(api_keys=[ApiVersion(api_key=18, max_version=4)])
    assert encode_parts(message, 0) == [encode(message, 0)]


def test_error_codes_are_written_as_their_numbers() -> None:
    encoded = encode(ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION), 0)
    assert encoded == bytes.fromhex("0023 00000000")
    assert decode(ApiVersionsResponse, encoded, 0).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_bytes_after_the_message_are_not_looked_at() -> None:
    message = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    assert decode(MetadataRequest, encode(message, 4) + b"garbage", 4) == message


def test_text_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(CorruptFrame, match="MetadataRequest v0: 'utf-8'"):
        decode(MetadataRequest, bytes.fromhex("00000001 0001 ff"), 0)


@pytest.mark.parametrize("count", ["7fffffff", "80000000", "fffffffe", "00000003"])
def test_a_count_larger_than_what_is_left_is_refused(count: str) -> None:
    with pytest.raises(CorruptFrame, match="topics"):
        decode(MetadataRequest, bytes.fromhex(count + "000000"), 0)


def test_long_compact_lengths_survive() -> None:
    """Lengths above 127 take two bytes, above 16,383 three."""
    for count in (126, 127, 128, 16_383, 16_384):
        message = MetadataRequest(topics=[MetadataRequestTopic(name="")] * count)
        assert decode(MetadataRequest, encode(message, 9), 9) == message
        named = MetadataRequest(topics=[MetadataRequestTopic(name="x" * count)])
        assert decode(MetadataRequest, encode(named, 9), 9) == named


def test_text_longer_than_kafka_allows_is_refused_in_flexible_versions_too() -> None:
    """32,768 bytes fit a compact string, but no version of Kafka accepts them."""
    body = b"\x02" + b"\x81\x80\x02" + b"x" * 32_768 + bytes(10)
    with pytest.raises(CorruptFrame, match="name"):
        decode(MetadataRequest, body, 9)


def test_codecs_are_made_once() -> None:
    assert decoder(ProduceRequest, 9) is decoder(ProduceRequest, 9)
    assert encoder(ProduceRequest, 9) is encoder(ProduceRequest, 9)


@pytest.mark.parametrize("version", [-1, 2, 14])
def test_asking_for_a_version_we_do_not_speak_is_our_own_bug(version: int) -> None:
    with pytest.raises(AssertionError, match=f"ProduceRequest has no version {version}"):
        decode(ProduceRequest, b"", version)
