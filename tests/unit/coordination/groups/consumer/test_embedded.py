"""What classic consumers tell each other, read and written."""

import pytest

from millstream.coordination.groups.consumer.embedded import by_topic_id, encode_assignment
from millstream.coordination.schemas.consumer_protocol import (
    NamedPartitions,
    Subscription,
    decode_assignment,
    decode_subscription,
    version_of,
)
from millstream.model.errors import CorruptFrame
from millstream.protocol.codec import encode
from tests.unit.coordination.stage import Topics, topic_id_of


def metadata(version: int, written: int | None = None) -> bytes:
    subscription = Subscription(
        topics=["orders"],
        user_data=b"mine",
        owned_partitions=[NamedPartitions(topic="orders", partitions=[1, 2])],
        generation_id=7,
        rack_id="r",
    )
    return (version if written is None else written).to_bytes(2, "big") + encode(subscription, version)


@pytest.mark.parametrize("version", range(4))
def test_every_version_of_a_subscription_is_read(version: int) -> None:
    found = decode_subscription(metadata(version))
    assert (found.topics, found.user_data) == (["orders"], b"mine")
    assert len(found.owned_partitions) == (version >= 1)
    assert found.generation_id == (7 if version >= 2 else -1)
    assert found.rack_id == ("r" if version >= 3 else None)


def test_a_later_version_is_read_as_the_last_we_know() -> None:
    assert decode_subscription(metadata(3, written=9) + b"more").rack_id == "r"
    assert version_of(metadata(3, written=9)) == 3


@pytest.mark.parametrize("odd", [b"", b"\x00", b"\x00\x00", b"\xff\xff\x00\x00\x00\x00", b"\x00\x00\x00\x00\x00\x09a"])
def test_what_is_no_subscription_is_refused(odd: bytes) -> None:
    with pytest.raises(CorruptFrame):
        decode_subscription(odd)


def test_an_assignment_names_the_topics_that_are_there() -> None:
    topics = Topics(orders=4)
    written = encode_assignment({topic_id_of("orders"): {3: 1, 1: 1}, topic_id_of("gone"): {0: 1}}, 2, topics)
    assert version_of(written) == 2
    found = decode_assignment(written)
    assert found.assigned_partitions == [NamedPartitions(topic="orders", partitions=[1, 3])]
    odd = [*found.assigned_partitions, NamedPartitions(topic="gone", partitions=[0])]
    assert by_topic_id(odd, topics) == {topic_id_of("orders"): [1, 3]}
