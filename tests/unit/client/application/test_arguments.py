"""Arguments that cannot be: refused by name, and before any broker is asked."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from millstream import Admin, BadSetting, BadUse, Consumer, Producer, process
from millstream.client.application import arguments
from millstream.client.application.subscription import chosen_topics

NOWHERE = "127.0.0.1:1"


def _send(**given: Any) -> object:
    producer = Producer(NOWHERE)
    try:
        return producer.send(given.pop("topic", "orders"), b"x", **given)
    finally:
        producer.discard()


def _read(use: Callable[[Consumer], object]) -> object:
    with Consumer(group="g", bootstrap=NOWHERE) as consumer:
        return use(consumer)


def _process(**given: Any) -> object:
    asked: dict[str, Any] = {"source": "a", "sink": "b", "fn": len, "group": "g", "bootstrap": NOWHERE, **given}
    return process(asked.pop("source"), asked.pop("sink"), asked.pop("fn"), **asked)


WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: Producer(NOWHERE, transactional_id="a\0b"), r"transactional_id='a\\x00b' is no name: it holds a NUL"),
    (lambda: Producer(NOWHERE, transactional_id=""), "transactional_id='' is no name: it is empty"),
    (lambda: Producer(NOWHERE, transactional_id="x" * 40_000), "transactional_id='xx.*longer than the 32767 bytes"),
    (lambda: Producer(NOWHERE, config={"client.id": "a\0b"}), r"client.id='a\\x00b' holds a NUL"),
    (lambda: Consumer("a", group="", bootstrap=NOWHERE), "group='' is no name"),
    (lambda: Consumer("a", group="g\0", bootstrap=NOWHERE), "group=.*NUL"),
    (lambda: Consumer("a\0", group="g", bootstrap=NOWHERE), "topic=.*NUL"),
    (lambda: Consumer(5, group="g", bootstrap=NOWHERE), "topic=5 is no name: it wants text"),  # type: ignore[arg-type]
    (lambda: Consumer("a", delivery="exactly_once", bootstrap=NOWHERE), "pass group="),
    (lambda: _read(lambda consumer: consumer.batches(0)), "size=0 is not a whole number of at least 1"),
    (lambda: _read(lambda consumer: consumer.records(limit=-1)), "limit=-1"),
    (lambda: _read(lambda consumer: consumer.records(idle_s="5")), "idle_s='5'"),  # type: ignore[arg-type]
    (lambda: _send(topic="orders\0"), "topic=.*NUL"),
    (lambda: _send(timestamp=time.time()), "timestamp=.* is of type float; give a datetime, or whole milli"),
    (lambda: _send(timestamp=-5), "timestamp=-5 is not a moment since 1970"),
    (lambda: _send(headers={"a": 5}), "headers: the value of 'a' is of type int"),
    (lambda: _send(headers=["ab"]), "headers: 'ab' is not a pair"),
    (lambda: _send(partition=-4), "partition=-4"),
    (lambda: Admin(NOWHERE).create_topic("a", partitions=-4), "partitions=-4"),
    (lambda: Admin(NOWHERE).delete_topic("a\0b"), "topic=.*NUL"),
    (lambda: Admin(NOWHERE).delete_group("a\0b"), "group=.*NUL"),
    (lambda: _process(fn=None), "fn=None cannot be called"),
    (lambda: _process(group=""), "group='' is no name"),
    (lambda: _process(idle_s="5"), "idle_s='5'"),
    (lambda: _process(source=[]), "names no topic"),
]


@pytest.mark.parametrize(("use", "told"), WRONG, ids=[told for _, told in WRONG])
def test_an_argument_that_cannot_be_is_named(use: Callable[[], object], told: str) -> None:
    with pytest.raises(BadSetting, match=told):
        use()


def test_an_exactly_once_consumer_commits_in_transactions_only() -> None:
    with (
        Consumer("a", group="g", delivery="exactly_once", bootstrap=NOWHERE) as consumer,
        pytest.raises(BadUse, match="commits in a transaction"),
    ):
        consumer.commit()


def test_topics_may_come_in_a_list() -> None:
    assert chosen_topics((["a", "b"], "c")) == ("a", "b", "c")


def test_headers_may_name_one_twice() -> None:
    assert arguments.headers([("a", b"1"), ("a", None)]) == [("a", b"1"), ("a", None)]


def test_a_star_gives_every_public_name() -> None:
    code = "from millstream import *; print(Producer, process, TopicPartition)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
