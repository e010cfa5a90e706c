"""millstream's transactions and process(): all of it or none, and each record once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import millstream
from millstream import Admin, Consumer, Delivery, Output, Producer, Record, TopicPartition, process
from tests.compatibility.conftest import NewTopic

END = b"<end>"


def fill(bootstrap: str, topic: str, count: int) -> None:
    with Producer(bootstrap) as producer:
        for number in range(count):
            producer.send(topic, str(number), key=f"key-{number}", headers={"n": str(number)})


def records(bootstrap: str, topic: str) -> list[Record]:
    """What is committed in a topic: all up to a mark that is put at the end of each partition."""
    found: list[Record] = []
    with Producer(bootstrap) as producer, Consumer(topic, bootstrap=bootstrap) as consumer:
        marks = [producer.send(topic, END, partition=index) for index in range(producer.partitions(topic))]
        ends = {mark.result(20).topic_partition for mark in marks}
        for record in consumer.records(idle_s=30):
            if record.value != END:
                found.append(record)
            elif not (ends := ends - {record.topic_partition}):
                break
    assert not ends
    return found


def values(bootstrap: str, topic: str) -> list[bytes]:
    return [record.value for record in records(bootstrap, topic)]


class Until:
    """A transformation that has its process stop once it was called so often."""

    def __init__(self, count: int, fn: Callable[[Record], Any] = lambda record: record) -> None:
        self.stop = threading.Event()
        self._left = count
        self._fn = fn

    def __call__(self, record: Record) -> Any:
        self._left -= 1
        if self._left == 0:
            self.stop.set()
        return self._fn(record)


def test_a_transaction_is_seen_whole_or_not_at_all(bootstrap: str, topic: str, name: str) -> None:
    with Producer(bootstrap, transactional_id=name) as producer:
        with producer.transaction():
            producer.send(topic, b"one")
            producer.send(topic, b"two")
        with pytest.raises(KeyError), producer.transaction():
            producer.send(topic, b"never")
            producer.flush()
            raise KeyError
        with producer.transaction() as transaction:
            producer.send(topic, b"nor this")
            transaction.abort()
        with producer.transaction():
            producer.send(topic, b"three")
    assert values(bootstrap, topic) == [b"one", b"two", b"three"]


def test_sending_outside_of_a_transaction_is_refused(bootstrap: str, topic: str) -> None:
    with (
        Producer(bootstrap, delivery="exactly_once") as producer,
        pytest.raises(millstream.BadUse, match="with produc"),
    ):
        producer.send(topic, b"x")
    with Producer(bootstrap) as producer, pytest.raises(millstream.BadUse, match="exactly_once"):
        producer.transaction()


def test_a_producer_is_fenced_by_the_next_of_its_name(bootstrap: str, topic: str, name: str) -> None:
    old = Producer(bootstrap, transactional_id=name)
    with old.transaction():
        old.send(topic, b"old")
    with Producer(bootstrap, transactional_id=name) as new:
        with new.transaction():
            new.send(topic, b"new")
        with pytest.raises(millstream.Fenced), old.transaction():
            old.send(topic, b"zombie")
    old.discard()
    assert values(bootstrap, topic) == [b"old", b"new"]


def test_offsets_are_committed_with_the_transaction_and_an_abort_takes_the_consumer_back(
    bootstrap: str, new_topic: NewTopic, group: str
) -> None:
    source, sink = new_topic(), new_topic()
    fill(bootstrap, source, 10)
    tp = TopicPartition(source, 0)
    with (
        Producer(bootstrap, delivery="exactly_once") as producer,
        Consumer(source, bootstrap=bootstrap, group=group, delivery="exactly_once") as consumer,
    ):
        batches = consumer.batches(5)
        with producer.transaction(consumer):
            for record in next(batches):
                producer.send(sink, record.value)
        assert consumer.committed() == {tp: 5}
        with pytest.raises(KeyError), producer.transaction(consumer):
            producer.send(sink, b"".join(record.value for record in next(batches)))
            raise KeyError
        assert consumer.committed() == {tp: 5}
        for record in consumer.records(limit=5):
            with producer.transaction() as transaction:
                producer.send(sink, record.value)
                transaction.commit_offsets(consumer)
            assert consumer.committed() == {tp: record.offset + 1}
    assert values(bootstrap, sink) == [str(number).encode() for number in range(10)]


@pytest.mark.parametrize("delivery", list(Delivery))
def test_the_same_program_processes_under_each_promise(
    bootstrap: str, new_topic: NewTopic, group: str, delivery: Delivery
) -> None:
    source, sink = new_topic(partitions=3), new_topic(partitions=2)
    fill(bootstrap, source, 500)
    copy = Until(500)
    done = process(source, sink, copy, group=group, delivery=delivery, bootstrap=bootstrap, stop=copy.stop)
    assert (done.records_in, done.records_out, done.aborts) == (500, 500, 0)
    assert Counter(values(bootstrap, sink)) == Counter(str(number).encode() for number in range(500))


def test_what_a_transformation_returns_is_what_is_sent(bootstrap: str, new_topic: NewTopic, group: str) -> None:
    source, sink, other = new_topic(), new_topic(), new_topic()
    fill(bootstrap, source, 5)

    def transform(record: Record) -> object:
        if record.value == 0:
            return None
        if record.value == 1:
            return {"kept": True}
        if record.value == 2:
            return Output("2", key="new", topic=other, headers={"h": "x"})
        if record.value == 3:
            return [record, {"again": 3}]
        raise ValueError("four")

    until = Until(5, transform)
    process(
        source,
        sink,
        until,
        group=group,
        bootstrap=bootstrap,
        value_deserializer="json",
        value_serializer="json",
        on_error=lambda record, error: Output(str(error), topic=other),
        stop=until.stop,
    )
    found = [(record.key, record.value, record.headers) for record in records(bootstrap, sink)]
    assert found == [
        (b"key-1", b'{"kept":true}', [("n", b"1")]),
        (b"key-3", b"3", [("n", b"3")]),
        (b"key-3", b'{"again":3}', [("n", b"3")]),
    ]
    found = [(record.key, record.value, record.headers) for record in records(bootstrap, other)]
    assert found == [(b"new", b'"2"', [("h", b"x")]), (b"key-4", b'"four"', [("n", b"4")])]


def test_a_transformation_that_fails_commits_nothing_of_its_transaction(
    bootstrap: str, new_topic: NewTopic, group: str
) -> None:
    source, sink = new_topic(), new_topic()
    fill(bootstrap, source, 10)

    def fail(record: Record) -> bytes:
        if record.value == b"7":
            raise ZeroDivisionError
        return bytes(record.value)

    with pytest.raises(ZeroDivisionError) as raised:
        process(source, sink, fail, group=group, bootstrap=bootstrap, commit_records=5, instance="one")
    assert "@7" in raised.value.__notes__[0]
    copy = Until(5)
    done = process(source, sink, copy, group=group, bootstrap=bootstrap, stop=copy.stop, instance="one")
    assert done.records_in == 5
    assert values(bootstrap, sink) == [str(number).encode() for number in range(10)]


def test_a_process_with_nothing_to_do_ends_when_it_was_idle_for_long_enough(
    bootstrap: str, new_topic: NewTopic, group: str
) -> None:
    done = process(new_topic(), new_topic(), lambda record: record, group=group, bootstrap=bootstrap, idle_s=0.3)
    assert done == millstream.Processed()


def test_two_processes_share_the_work_and_stop_when_told(bootstrap: str, new_topic: NewTopic, group: str) -> None:
    source, sink = new_topic(partitions=4), new_topic()
    stop = threading.Event()
    done: list[millstream.Processed] = []

    def work() -> None:
        done.append(
            process(source, sink, lambda record: record, group=group, bootstrap=bootstrap, stop=stop, commit_records=20)
        )

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    with Producer(bootstrap) as producer:
        for number in range(2_000):
            producer.send(source, str(number), partition=number % 4)
            if number % 20 == 0:
                producer.flush()
    with Consumer(sink, bootstrap=bootstrap) as consumer:
        found = [record.value for record in consumer.records(limit=2_000, idle_s=40)]
    stop.set()
    for worker in workers:
        worker.join()
    assert Counter(found) == Counter(str(number).encode() for number in range(2_000))
    assert sum(one.records_in for one in done) == 2_000


def test_a_transaction_that_hangs_is_found_and_aborted(bootstrap: str, topic: str, name: str) -> None:
    hanging = Producer(bootstrap, transactional_id=name)
    hanging.transaction().begin()
    hanging.send(topic, b"never").result(20)
    with Admin(bootstrap) as admin:
        found = admin.describe_transaction(name)
        assert (found.state, found.partitions) == ("Ongoing", [TopicPartition(topic, 0)])
        assert found.since is not None
        assert name in {row.id for row in admin.transactions()}
        admin.abort_transaction(name)
        assert admin.describe_transaction(name).state == "Empty"
        with pytest.raises(millstream.Refused) as refused:
            admin.abort_transaction(f"{name}-nobody")
    assert refused.value.code == "TRANSACTIONAL_ID_NOT_FOUND"
    hanging.discard()
    assert values(bootstrap, topic) == []
