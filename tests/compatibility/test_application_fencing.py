"""Producers and processes that can do no more are told so at once, and leave in good order."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

import millstream
from millstream import Admin, Fenced, Processed, Producer, Record, process
from tests.compatibility.conftest import NewTopic
from tests.system.broker_process import BrokerProcess


def test_of_two_processes_with_one_instance_name_the_first_is_fenced(
    bootstrap: str, new_topic: NewTopic, group: str
) -> None:
    source, sink = new_topic(), new_topic()
    with Producer(bootstrap) as producer:
        producer.send(source, b"one")
    outcomes: list[Processed | Exception] = []
    first_works, second_stops = threading.Event(), threading.Event()

    def first(record: Record) -> Record:
        first_works.set()
        return record

    def run() -> None:
        try:
            outcomes.append(process(source, sink, first, group=group, instance="a", bootstrap=bootstrap, idle_s=60))
        except Exception as error:
            outcomes.append(error)
        second_stops.set()

    loser = threading.Thread(target=run)
    loser.start()
    assert first_works.wait(30)
    began_s = time.monotonic()
    process(source, sink, lambda record: record, group=group, instance="a", bootstrap=bootstrap, stop=second_stops)
    loser.join()
    assert [type(outcome) for outcome in outcomes] == [Fenced], outcomes
    assert time.monotonic() - began_s < 30


def test_a_fenced_producer_says_so_and_leaves_in_good_order(bootstrap: str, topic: str, name: str) -> None:
    with pytest.raises(Fenced), Producer(bootstrap, transactional_id=name) as old:
        with old.transaction():
            old.send(topic, b"old")
        with Producer(bootstrap, transactional_id=name) as new, new.transaction():
            new.send(topic, b"new")
        with old.transaction():
            old.send(topic, b"zombie")


def test_a_fencing_that_was_caught_is_not_raised_again_on_leaving(bootstrap: str, topic: str, name: str) -> None:
    with Producer(bootstrap, transactional_id=name) as old:
        with old.transaction():
            old.send(topic, b"old")
        with Producer(bootstrap, transactional_id=name) as new, new.transaction():
            new.send(topic, b"new")
        with pytest.raises(millstream.Fenced, match="transactional id") as told, old.transaction():
            old.send(topic, b"zombie")
    assert "transaction.timeout.ms" in str(told.value)


def test_ctrl_c_in_a_transaction_waits_for_no_broker(tmp_path: Path, name: str) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        with Admin(broker.address) as admin:
            admin.create_topic(name, 1)
        producer = Producer(broker.address, transactional_id=name)
        began_s = time.monotonic()
        with pytest.raises(KeyboardInterrupt), producer, producer.transaction():
            producer.send(name, b"never").result(30)
            broker.kill()
            began_s = time.monotonic()
            raise KeyboardInterrupt
    assert time.monotonic() - began_s < 10
