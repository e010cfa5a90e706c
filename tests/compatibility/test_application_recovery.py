"""A consumer goes on with what its group has not committed, whatever became of the transaction that read it."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from millstream import (
    Admin,
    Consumer,
    Fenced,
    Producer,
    Record,
    TopicPartition,
    TransactionAborted,
    Unreachable,
    process,
)
from millstream.client.application.transaction import Transaction
from tests.compatibility.conftest import NewTopic
from tests.compatibility.test_application_groups import QUICK
from tests.compatibility.test_application_transactions import fill, values
from tests.system.broker_process import BrokerProcess
from tests.system.running_members import eventually

COUNT = 20
HALF = COUNT // 2


def reader(bootstrap: str, source: str, group: str) -> Consumer:
    return Consumer(source, bootstrap=bootstrap, group=group, delivery="exactly_once", config=QUICK)


def copy(producer: Producer, consumer: Consumer, sink: str, limit: int) -> None:
    for record in consumer.records(limit=limit, idle_s=10):
        producer.send(sink, record.value).result(30)


def copy_the_rest(producer: Producer, consumer: Consumer, sink: str, *partitions: TopicPartition) -> None:
    """Transaction after transaction, as an application would, until the group has committed all there is."""

    def is_done() -> bool:
        with suppress(TransactionAborted), producer.transaction(consumer):
            for record in consumer.take(COUNT, 0.1):
                producer.send(sink, record.value)
        return sum(consumer.committed(*partitions).values()) == COUNT

    eventually(is_done)


class Rivals(NamedTuple):
    """Two producers of one transactional id, and a reader of a topic that holds ``COUNT`` records."""

    old: Producer
    new: Producer
    consumer: Consumer
    source: str
    sink: str


@pytest.fixture
def rivals(bootstrap: str, new_topic: NewTopic, group: str, name: str) -> Iterator[Rivals]:
    source, sink = new_topic(), new_topic()
    fill(bootstrap, source, COUNT)
    old = Producer(bootstrap, transactional_id=name)
    with Producer(bootstrap, transactional_id=name) as new, reader(bootstrap, source, group) as consumer:
        yield Rivals(old, new, consumer, source, sink)


def each_once() -> Counter[bytes]:
    return Counter(str(number).encode() for number in range(COUNT))


def test_after_a_commit_that_was_fenced_its_records_come_again(bootstrap: str, rivals: Rivals) -> None:
    old, new, consumer, source, sink = rivals
    with pytest.raises(Fenced), old.transaction(consumer):
        copy(old, consumer, sink, HALF)
        new.take_over(30)
    old.discard()
    with pytest.raises(TransactionAborted), new.transaction(consumer):
        copy(new, consumer, sink, HALF)
    assert consumer.committed() == {}
    copy_the_rest(new, consumer, sink, TopicPartition(source, 0))
    assert Counter(values(bootstrap, sink)) == each_once()


def test_after_an_abort_that_was_fenced_its_records_come_again_at_once(bootstrap: str, rivals: Rivals) -> None:
    old, new, consumer, _, sink = rivals
    with pytest.raises(KeyError), old.transaction(consumer):
        copy(old, consumer, sink, HALF)
        new.take_over(30)
        raise KeyError
    old.discard()
    with new.transaction(consumer):
        copy(new, consumer, sink, COUNT)
    assert Counter(values(bootstrap, sink)) == each_once()


def test_what_was_committed_without_our_hearing_of_it_does_not_come_again(
    bootstrap: str, new_topic: NewTopic, group: str
) -> None:
    source, sink = new_topic(), new_topic()
    fill(bootstrap, source, COUNT)
    with Producer(bootstrap, delivery="exactly_once") as producer, reader(bootstrap, source, group) as consumer:
        with producer.transaction():
            copy(producer, consumer, sink, HALF)
            producer._wire.send_offsets_to_transaction(*consumer.progress(), 30)
        with pytest.raises(TransactionAborted), producer.transaction(consumer):
            copy(producer, consumer, sink, 1)
        with producer.transaction(consumer):
            copy(producer, consumer, sink, COUNT - HALF)
        assert consumer.committed() == {TopicPartition(source, 0): COUNT}
    assert Counter(values(bootstrap, sink)) == each_once()


def test_a_group_that_does_not_say_where_to_go_on_is_asked_again(tmp_path: Path, name: str, group: str) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        with Admin(broker.address) as admin:
            admin.create_topic(name, 1)
        fill(broker.address, name, COUNT)
        with reader(broker.address, name, group) as consumer:
            assert len(list(consumer.records(limit=HALF))) == HALF
            broker.signal(signal.SIGSTOP)
            try:
                with pytest.raises(Unreachable):
                    consumer.rewind(to_committed=True, timeout_s=0.5)
            finally:
                broker.signal(signal.SIGCONT)
            consumer.rewind(to_committed=True)
            assert [record.offset for record in consumer.records(limit=COUNT, idle_s=10)] == list(range(COUNT))


def failing_once(works: Callable[..., Any]) -> Callable[..., Any]:
    """The same, but at first nobody answers."""
    answers = iter([False])

    def asked(*arguments: Any, **options: Any) -> Any:
        if next(answers, True):
            return works(*arguments, **options)
        raise Unreachable("nobody answers")

    return asked


def test_process_skips_nothing_when_at_first_neither_its_commit_nor_its_group_is_answered(
    bootstrap: str, new_topic: NewTopic, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, sink, stop = new_topic(), new_topic(), threading.Event()
    fill(bootstrap, source, COUNT)

    def last_stops(record: Record) -> Record:
        if record.offset == COUNT - 1:
            stop.set()
        return record

    monkeypatch.setattr(Transaction, "_send_offsets", failing_once(Transaction._send_offsets))
    monkeypatch.setattr(Consumer, "committed", failing_once(Consumer.committed))
    done = process(source, sink, last_stops, group=group, bootstrap=bootstrap, stop=stop, commit_records=HALF)
    assert (done.records_in, done.aborts) == (COUNT, 2)
    assert Counter(values(bootstrap, sink)) == each_once()


def test_a_transaction_that_loses_what_it_has_read_to_another_member_is_aborted(
    bootstrap: str, new_topic: NewTopic, group: str
) -> None:
    source, sink = new_topic(partitions=2), new_topic()
    fill(bootstrap, source, COUNT)
    with Producer(bootstrap, delivery="exactly_once") as producer, reader(bootstrap, source, group) as consumer:
        with pytest.raises(TransactionAborted), producer.transaction(consumer):
            copy(producer, consumer, sink, COUNT)
            with reader(bootstrap, source, group) as other:

                def is_shared() -> bool:
                    consumer.poll(0.05)
                    other.poll(0.05)
                    return len(other.assignment()) == 1 == len(consumer.assignment())

                eventually(is_shared)
        copy_the_rest(producer, consumer, sink, TopicPartition(source, 0), TopicPartition(source, 1))
    assert Counter(values(bootstrap, sink)) == each_once()
