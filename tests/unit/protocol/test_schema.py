"""What a declaration makes of a class, before any codec is compiled."""

import pytest

from millstream.protocol.messages import REQUESTS
from millstream.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from millstream.protocol.messages.produce import ProduceRequest, ProduceResponse, TopicProduceData
from millstream.protocol.schema import NEVER, VERSION_MAX, Versions
from millstream.protocol.types import INT32_MAX, INT64_MAX
from tests.properties.strategies import MESSAGES


@pytest.mark.parametrize(("text", "versions"), [("3", (3, 3)), ("3-7", (3, 7)), ("0+", (0, 32767))])
def test_versions_are_written_as_kafka_writes_them(text: str, versions: tuple[int, int]) -> None:
    assert Versions.parse(text) == versions


def test_a_range_has_its_ends_and_never_has_nothing() -> None:
    assert [version for version in range(10) if Versions(3, 5).has(version)] == [3, 4, 5]
    assert not any(NEVER.has(version) for version in range(10))


def test_what_is_not_given_has_its_default() -> None:
    assert FetchRequest().max_bytes == INT32_MAX
    assert FetchPartition().high_watermark == INT64_MAX
    assert (ProduceRequest().transactional_id, ProduceRequest().acks, TopicProduceData().name) == (None, 0, "")
    assert TopicProduceData().topic_id == bytes(16)
    assert PartitionData().current_leader is None


def test_no_two_messages_share_a_list() -> None:
    first, second = FetchTopic(), FetchTopic()
    first.partitions.append(FetchPartition())
    assert second.partitions == []


def test_messages_are_equal_when_their_fields_are() -> None:
    assert FetchTopic(topic="a") == FetchTopic(topic="a")
    assert FetchTopic(topic="a") != FetchTopic(topic="b")
    assert FetchTopic() != FetchPartition()  # type: ignore[comparison-overlap]
    with pytest.raises(TypeError, match="unhashable"):
        hash(FetchTopic())


def test_a_message_has_its_fields_and_no_others() -> None:
    topic = FetchTopic(topic="a")
    with pytest.raises(AttributeError):
        topic.name = "b"  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        FetchTopic(name="b")  # type: ignore[call-arg]


def test_a_message_prints_its_fields() -> None:
    assert repr(FetchTopic(topic="a", topic_id=b"")) == "FetchTopic(topic='a', topic_id=b'', partitions=[])"


def test_a_request_knows_its_response_and_both_their_api() -> None:
    assert ProduceRequest.RESPONSE is ProduceResponse
    for key, request in REQUESTS.items():
        assert request.__name__.removesuffix("Request") == request.RESPONSE.__name__.removesuffix("Response")
        assert (key, key) == (request.API_KEY, request.RESPONSE.API_KEY)
        assert request.VERSIONS == request.RESPONSE.VERSIONS


def test_the_versions_we_speak() -> None:
    """Kafka 4.3's table, with Produce from the first version that carries magic-2 batches."""
    assert {key: (*request.VERSIONS, request.FLEXIBLE_FROM) for key, request in REQUESTS.items()} == {
        0: (3, 13, 9),
        1: (4, 18, 12),
        2: (1, 11, 6),
        3: (0, 13, 9),
        4: (0, 7, 4),
        5: (0, 4, 2),
        6: (0, 8, 6),
        7: (0, 3, 3),
        8: (2, 10, 8),
        9: (1, 10, 6),
        10: (0, 6, 3),
        11: (0, 9, 6),
        12: (0, 4, 4),
        13: (0, 5, 4),
        14: (0, 5, 4),
        15: (0, 6, 5),
        16: (0, 5, 3),
        18: (0, 4, 3),
        19: (2, 7, 5),
        20: (1, 6, 4),
        21: (0, 2, 2),
        22: (0, 6, 2),
        23: (2, 4, 4),
        24: (0, 5, 3),
        25: (0, 4, 3),
        26: (0, 5, 3),
        27: (1, 2, 1),
        28: (0, 5, 3),
        32: (1, 4, 4),
        33: (0, 2, 2),
        34: (1, 2, 2),
        35: (1, 5, 2),
        37: (0, 3, 2),
        42: (0, 2, 2),
        43: (0, 2, 2),
        44: (0, 1, 1),
        45: (0, 1, 0),
        46: (0, 0, 0),
        47: (0, 0, VERSION_MAX),
        56: (2, 3, 0),
        60: (0, 2, 0),
        61: (0, 0, 0),
        65: (0, 0, 0),
        66: (0, 2, 0),
        68: (0, 1, 0),
        69: (0, 1, 0),
        75: (0, 0, 0),
    }


@pytest.mark.parametrize("cls", MESSAGES)
def test_tags_are_not_given_twice(cls: type) -> None:
    tags = [each.tag for each in cls.FIELDS if each.tag is not None]  # type: ignore[attr-defined]
    assert len(tags) == len(set(tags))
