"""Which leaders are given back, and when."""

import pytest

from millstream.controller.balance import misled
from millstream.controller.context import Context, LiveBroker, Partition, Topic
from millstream.model.ids import TopicPartition
from millstream.registry.nodes import BrokerRegistration, Endpoint, PartitionState


def cluster(leaders: list[int], isr: tuple[int, ...] = (1, 2)) -> Context:
    """A topic whose partitions all prefer broker 1, led as given."""
    context = Context(1, 1, 1)
    registration = BrokerRegistration((Endpoint("PLAINTEXT", "here", 9092),))
    context.brokers = {number: LiveBroker(number, number, registration) for number in (1, 2)}
    partitions = {
        number: Partition((1, 2), state=PartitionState(leader, 0, isr, 1)) for number, leader in enumerate(leaders)
    }
    context.add_topic(Topic("orders", bytes(15) + b"\1", partitions=partitions))
    return context


@pytest.mark.parametrize(("others", "is_too_much"), [(1, False), (2, True)])
def test_leaders_are_given_back_once_others_lead_more_than_the_percentage(others: int, is_too_much: bool) -> None:
    context = cluster([2] * others + [1] * (10 - others))
    expected = [TopicPartition("orders", number) for number in range(others)] if is_too_much else []
    assert misled(context, 10) == expected


def test_only_to_a_broker_that_is_there_and_in_sync_and_stays() -> None:
    assert misled(cluster([2], isr=(2,)), 10) == []
    context = cluster([2])
    context.leaving.add(1)
    assert misled(context, 10) == []
    context = cluster([2])
    del context.brokers[1]
    assert misled(context, 10) == []


def test_what_is_being_moved_is_left_alone() -> None:
    context = cluster([2])
    context.topics["orders"].partitions[0].adding = (1,)
    assert misled(context, 10) == []
