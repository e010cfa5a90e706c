"""What is fetched, handed out and processed, and what may be committed of it."""

from confluent_kafka import Message

from millstream.client.application.handed import Handed, Span
from millstream.model.ids import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def handed(*places: tuple[TopicPartition, int]) -> Handed:
    one = Handed()
    one.messages = [Message(topic=tp.topic, partition=tp.partition, offset=offset) for tp, offset in places]
    return one


def test_only_what_is_folded_is_counted() -> None:
    one = handed((A, 5), (B, 0), (A, 6), (A, 7))
    one.at = 3
    one.fold(2)
    assert one.spans == {A: Span(5, 6), B: Span(0, 1)}
    assert (one.at, one.left()) == (1, 1)


def test_a_span_grows_until_it_is_committed_and_keeps_its_first() -> None:
    one = handed((A, 5), (A, 9))
    one.at = 2
    one.fold(1)
    one.fold(1)
    assert one.spans == {A: Span(5, 10)}
    assert [(p.topic, p.partition, p.offset) for p in one.offsets()] == [("t", 0, 10)]


def test_dropping_forgets_only_what_was_not_handed_out_and_says_where_it_began() -> None:
    one = handed((A, 5), (B, 0), (A, 6), (A, 7))
    one.at = 1
    turn = one.turn
    assert one.drop({A}) == {A: 6}
    assert one.left() == 1
    assert one.turn is not turn
    one.fold(1)
    assert one.spans == {A: Span(5, 6)}


def test_forgetting_leaves_nothing_of_a_partition_that_another_has() -> None:
    one = handed((A, 5), (B, 0), (A, 6), (B, 1))
    one.at = 2
    one.forget({A})
    assert one.spans == {B: Span(0, 1)}
    assert [message.offset() for message in one.messages[one.at :]] == [1]


def test_it_is_known_whether_anything_handed_out_was_forgotten_until_all_is_settled() -> None:
    one = handed((A, 5), (B, 0))
    one.at = 1
    known = []
    for gone in (B, A, B):
        one.forget({gone})
        known.append(one.has_lost)
    one.settle()
    assert [*known, one.has_lost] == [False, True, True, False]


def test_a_consumer_that_commits_nothing_counts_nothing() -> None:
    one = Handed(is_counted=False)
    one.messages = handed((A, 5)).messages
    one.at = 1
    one.fold(1)
    assert (one.spans, one.messages, one.at) == ({}, [], 0)
