"""What a consumer keeps in mind of the records it handed out, while nobody answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Message
from confluent_kafka import TopicPartition as WirePartition

from millstream import Consumer, Delivery, MillstreamError, PartitionsLost, TransactionAborted
from millstream.client.application.handed import Span
from millstream.model.ids import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
SOON_S = 0.1


def made(delivery: Delivery) -> Consumer:
    """A consumer of two partitions whose broker is not there, and that has handed out two records of each."""
    consumer = Consumer(group="g", delivery=delivery, bootstrap="127.0.0.1:1")
    consumer.assign({A: 0, B: 0})
    handed = consumer._intake.handed
    handed.messages = [Message(topic=tp.topic, partition=tp.partition, offset=at) for tp in (A, B) for at in (0, 1)]
    assert len(consumer.take(4, 0)) == 4
    return consumer


@pytest.fixture
def consumer() -> Iterator[Consumer]:
    with made(Delivery.EXACTLY_ONCE) as one:
        yield one


def test_a_rewind_that_fails_is_to_be_made_again(consumer: Consumer) -> None:
    for _ in range(2):
        with pytest.raises(MillstreamError):
            consumer.rewind(to_committed=True, timeout_s=SOON_S)
    assert consumer._intake.handed.spans == {A: Span(0, 2), B: Span(0, 2)}


def test_after_a_rewind_that_failed_nothing_is_committed_and_the_group_is_asked(consumer: Consumer) -> None:
    with pytest.raises(MillstreamError):
        consumer.rewind(to_committed=True, timeout_s=SOON_S)
    with pytest.raises(TransactionAborted):
        consumer.progress()
    with pytest.raises(MillstreamError):
        consumer.rewind(timeout_s=SOON_S)


def test_what_is_to_be_handed_out_again_is_not_stored_to_be_committed() -> None:
    with made(Delivery.AT_LEAST_ONCE) as consumer:
        with pytest.raises(MillstreamError):
            consumer.rewind(to_committed=True, timeout_s=SOON_S)
        consumer._intake.store()
        assert consumer._intake.handed.spans == {A: Span(0, 2), B: Span(0, 2)}


def test_what_was_taken_away_with_its_partition_forbids_a_commit_until_the_rest_is_taken_back(
    consumer: Consumer,
) -> None:
    consumer._intake._revoked(consumer._wire, [WirePartition(*A), WirePartition(*B)])
    with pytest.raises(PartitionsLost):
        consumer.progress()
    consumer.rewind()
    assert consumer.progress().offsets == []


def test_a_closed_consumer_need_not_be_taken_back() -> None:
    consumer = made(Delivery.EXACTLY_ONCE)
    consumer.close()
    consumer.rewind()
