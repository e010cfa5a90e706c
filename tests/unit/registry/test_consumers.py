"""The nodes of registry consumers, as Kafka's older consumers wrote them."""

import pytest

from millstream.registry.consumers import (
    CONSUMER,
    EXCLUDING,
    INCLUDING,
    OFFSET,
    OWNER,
    ConsumerRegistration,
    topic_filter,
)
from millstream.registry.tree import RegistryFailure

TOPICS = ["orders", "orders.eu", "payments", "__consumer_offsets"]


def test_a_members_node_is_as_kafka_writes_it() -> None:
    member = ConsumerRegistration({"orders": 2}, timestamp_ms=1620000000000)
    data = b'{"version":1,"subscription":{"orders":2},"pattern":"static","timestamp":"1620000000000"}'
    assert CONSUMER.path("g", "g_host-1-ab") == "/consumers/g/ids/g_host-1-ab"
    assert CONSUMER.encode(member) == data
    assert CONSUMER.decode(data) == member


def test_owners_and_offsets_are_plain_text() -> None:
    assert OWNER.path("g", "orders", 3) == "/consumers/g/owners/orders/3"
    assert OWNER.encode("g_host-1-ab-0") == b"g_host-1-ab-0"
    assert OFFSET.path("g", "orders", 3) == "/consumers/g/offsets/orders/3"
    assert OFFSET.decode(OFFSET.encode(42)) == 42
    with pytest.raises(RegistryFailure, match="/consumers/g/offsets/orders/3"):
        OFFSET.decode(b"many", "g", "orders", 3)


@pytest.mark.parametrize(
    ("member", "topics"),
    [
        (ConsumerRegistration({"orders": 1, "gone": 1}), {"orders"}),
        (ConsumerRegistration({"__consumer_offsets": 1}), {"__consumer_offsets"}),
        (ConsumerRegistration({"orders.*": 1}, INCLUDING), {"orders", "orders.eu"}),
        (ConsumerRegistration({"orders, pay.*": 1}, INCLUDING), {"orders", "payments"}),
        (ConsumerRegistration({"order": 1}, INCLUDING), set()),
        (ConsumerRegistration({"orders.*": 1}, EXCLUDING), {"payments"}),
    ],
)
def test_topics_are_chosen_by_name_or_pattern(member: ConsumerRegistration, topics: set[str]) -> None:
    assert member.topics(TOPICS) == topics


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'\(' is not a pattern of topics"):
        topic_filter("(")
