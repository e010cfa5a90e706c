"""The txn commands against a running broker and real producers."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer

from tests.system.command import Millstream


@pytest.fixture
def name() -> str:
    return f"mover-{os.urandom(4).hex()}"


@pytest.fixture
def producer(millstream: Millstream, name: str) -> Iterator[Producer]:
    """A transactional producer that has not begun yet."""
    producer = Producer(
        {"bootstrap.servers": millstream.bootstrap, "transactional.id": name, "transaction.timeout.ms": 300_000}
    )
    producer.init_transactions(30)
    yield producer
    producer.purge()


def begin(producer: Producer, topic: str, *partitions: int) -> None:
    """Open a transaction with a record in each partition."""
    producer.begin_transaction()
    for partition in partitions:
        producer.produce(topic, "value", partition=partition)
    assert producer.flush(30) == 0


def described(millstream: Millstream, name: str) -> dict[str, Any]:
    [document] = millstream("txn", "describe", name, "-o", "json").document
    assert isinstance(document, dict)
    return document


def open_in(millstream: Millstream, topic: str) -> list[tuple[int, int]]:
    """Partition and first offset of each open transaction."""
    rows = millstream("txn", "describe", "--topic", topic, "--open", "-o", "json").document
    return [(row["partition"], row["open_since_offset"]) for row in rows]


def test_an_open_transaction_is_listed_and_described(
    millstream: Millstream, topic: str, name: str, producer: Producer
) -> None:
    assert described(millstream, name)["state"] == "Empty"
    begin(producer, topic, 0, 2)
    [listed] = millstream("txn", "list", name, "--state", "ongoing", "-o", "json").document
    document = described(millstream, name)
    assert (document["state"], document["timeout_ms"]) == ("Ongoing", 300_000)
    assert document["partitions"] == [f"{topic}-0", f"{topic}-2"]
    assert listed["producer_id"] == document["producer_id"] >= 0
    assert 0 <= listed["age_seconds"] <= document["age_seconds"] < 120
    assert document["started"].endswith("Z")
    shown = millstream("txn", "describe", name)
    assert f"transactional id {name}, Ongoing, open for" in shown.output
    assert f"partitions {topic}-0 {topic}-2" in shown.output
    assert millstream("txn", "list", name, "--older-than", "1h", "-q").lines == []
    assert millstream("txn", "list", name, "--older-than", "1ms", "-q").lines == [name]
    assert open_in(millstream, topic) == [(0, 0), (2, 0)]
    producer.commit_transaction(30)
    assert millstream("txn", "list", name, "--state", "Ongoing", "-q").lines == []
    assert open_in(millstream, topic) == []


def test_a_topics_producers_are_shown(millstream: Millstream, topic: str, name: str, producer: Producer) -> None:
    begin(producer, topic, 1)
    producer.commit_transaction(30)
    [row] = millstream("txn", "describe", "--topic", f"{topic}:1", "-o", "json").document
    assert row["producer_id"] == described(millstream, name)["producer_id"]
    assert (row["topic"], row["partition"], row["last_sequence"]) == (topic, 1, 0)
    assert row["open_since_offset"] is None
    assert millstream("txn", "describe", "--topic", f"{topic}:0", "-o", "json").document == []


def test_an_aborted_transaction_is_undone_and_its_producer_fenced(
    millstream: Millstream, topic: str, name: str, producer: Producer
) -> None:
    begin(producer, topic, 0)
    before = described(millstream, name)
    assert millstream("txn", "abort", name).lines == [f"aborted {name}"]
    after = described(millstream, name)
    assert after["state"] != "Ongoing" and after["partitions"] == []
    assert after["producer_epoch"] > before["producer_epoch"]
    assert open_in(millstream, topic) == []
    read = millstream("consume", topic, "-e", "--isolation", "read_committed")
    assert read.lines == []
    with pytest.raises(KafkaException):
        producer.commit_transaction(30)


def test_where_nothing_is_open_nothing_is_said_to_be_aborted(millstream: Millstream, topic: str, name: str) -> None:
    producer = Producer({"bootstrap.servers": millstream.bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    assert millstream("txn", "abort", name).lines == [f"{name}: no transaction was open; its producer is fenced"]


def test_a_transaction_is_aborted_at_its_place_in_a_partition(
    millstream: Millstream, topic: str, producer: Producer
) -> None:
    """As is needed for one that its coordinator has forgotten."""
    begin(producer, topic, 0, 1)
    producer.commit_transaction(30)
    begin(producer, topic, 0, 1)
    assert open_in(millstream, topic) == [(0, 2), (1, 2)]
    wrong = millstream("txn", "abort", "--topic", f"{topic}:0", "--start-offset", 0, code=1)
    assert f"no transaction of partition {topic}-0 starts at 0; open ones start at 2" in wrong.errors
    done = millstream("txn", "abort", "--topic", topic, "--partition", 0, "--start-offset", 2)
    assert done.output.startswith("aborted the transaction of producer")
    assert open_in(millstream, topic) == [(1, 2)]


def test_an_unknown_id_is_refused_and_not_made(millstream: Millstream, name: str) -> None:
    for verb in ("describe", "abort"):
        refused = millstream("txn", verb, name, code=1)
        assert f"there is no transactional id {name!r} (TRANSACTIONAL_ID_NOT_FOUND)" in refused.errors
        assert "millstream txn list" in refused.errors
    assert name not in millstream("txn", "list", "-q").lines


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["describe"], "name transactional ids, or a topic"),
        (["describe", "mover", "--topic", "orders"], "name transactional ids, or a topic"),
        (["abort"], "name transactional ids, or a place"),
        (["abort", "--topic", "orders", "--start-offset", "5"], "the partition is missing; one place is needed"),
        (["abort", "--topic", "orders:0"], "--start-offset is missing; one place is needed"),
        (["abort", "--topic", "orders:0,1", "--start-offset", "5"], "2 partitions are named; one place is needed"),
        (["list", "--older-than", "long"], "'long' is not a duration"),
        (["list", "--state", "going"], "'going' is none of Ongoing"),
    ],
)
def test_a_txn_command_that_is_not_said_clearly_is_a_misuse(
    millstream: Millstream, words: list[str], told: str
) -> None:
    assert told in millstream("txn", *words, code=2).errors
