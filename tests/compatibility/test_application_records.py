"""millstream.Producer and Consumer: records in and out, without a group."""

from __future__ import annotations

import asyncio
import queue
import re
import threading
from datetime import UTC, datetime, timedelta

import pytest

import millstream
from millstream import Consumer, Producer, TopicPartition
from tests.compatibility.conftest import NewTopic

IDLE_S = 1.5


def values(bootstrap: str, topic: str, count: int) -> list[bytes]:
    with Consumer(topic, bootstrap=bootstrap) as consumer:
        return [record.value for record in consumer.records(limit=count, idle_s=20)]


def test_a_record_arrives_as_it_was_sent(bootstrap: str, topic: str) -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    with Producer(bootstrap, key_serializer="str", value_serializer="json") as producer:
        sent = producer.send(topic, {"total": 9.5}, key="42", headers=[("a", "1"), ("a", b"2")], timestamp=at)
        delivered = sent.result(20)
        assert delivered[:3] == (topic, 0, 0)
        assert producer.send(topic, None, key="42").result(20).offset == 1
    with Consumer(topic, bootstrap=bootstrap, key_deserializer="str", value_deserializer="json") as consumer:
        first, second = consumer.records(limit=2)
    assert (first.key, first.value, first.timestamp) == ("42", {"total": 9.5}, at)
    assert first.headers == [("a", b"1"), ("a", b"2")]
    assert (second.key, second.value) == ("42", None)


def test_a_delivery_can_be_awaited(bootstrap: str, topic: str) -> None:
    async def send() -> list[int]:
        with Producer(bootstrap) as producer:
            first = await producer.send(topic, b"first")
            rest = await asyncio.gather(*(producer.send(topic, str(number)) for number in range(200)))
        return [first.offset, *(one.offset for one in rest)]

    assert asyncio.run(send()) == list(range(201))


def test_a_callback_hears_of_a_delivery_while_nobody_else_waits(bootstrap: str, topic: str) -> None:
    heard: queue.Queue[int] = queue.Queue()
    with Producer(bootstrap) as producer:
        producer.send(topic, b"x").add_done_callback(lambda sent: heard.put(sent.result(0).offset))
        assert heard.get(timeout=20) == 0


def test_leaving_the_producer_waits_for_everything_sent(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, config={"linger.ms": 500}) as producer:
        for number in range(1_000):
            producer.send(topic, str(number))
    assert values(bootstrap, topic, 1_000) == [str(number).encode() for number in range(1_000)]


def test_a_full_queue_holds_the_sender_back(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, config={"queue.buffering.max.messages": 10}) as producer:
        for number in range(2_000):
            producer.send(topic, str(number))
    assert len(values(bootstrap, topic, 2_000)) == 2_000


def test_a_failure_nobody_looked_at_is_raised_on_leaving(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(max_message_bytes="1000")
    with (
        pytest.raises(millstream.DeliveryFailed, match="1 of the records sent did not arrive"),
        Producer(bootstrap) as producer,
    ):
        producer.send(topic, bytes(5_000))


def test_a_failure_that_was_looked_at_is_not_raised_again(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(max_message_bytes="1000")
    with Producer(bootstrap) as producer, pytest.raises(millstream.DeliveryFailed) as failed:
        producer.send(topic, bytes(5_000)).result(20)
    assert failed.value.code == "MSG_SIZE_TOO_LARGE"


def test_round_robin_shares_records_out_evenly(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=3)
    with Producer(bootstrap, partitioner="round_robin") as producer:
        chosen = [producer.send(topic, b"x", key="same").result(20).partition for _ in range(6)]
    assert chosen == [0, 1, 2, 0, 1, 2]


def test_keys_go_where_kafkas_java_producers_put_them(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=5)
    keys = [f"key-{number}".encode() for number in range(20)]
    with Producer(bootstrap) as producer:
        chosen = [producer.send(topic, b"x", key=key) for key in keys]
    assert [one.result(20).partition for one in chosen] == [millstream.key_hash(key, 5) for key in keys]


def test_a_partitioner_of_ones_own_chooses(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=3)
    with Producer(bootstrap, partitioner=lambda key, partitions: partitions - 1) as producer:
        assert producer.send(topic, b"x").result(20).partition == 2
        assert producer.send(topic, b"x", partition=0).result(20).partition == 0
    wild = Producer(bootstrap, partitioner=lambda key, partitions: 7)
    with wild, pytest.raises(millstream.BadSetting, match="chose 7"):
        wild.send(topic, b"x")


def test_at_most_once_sends_without_a_retry(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap, delivery="at_most_once") as producer:
        assert producer.send(topic, b"x").result(20).offset == 0


def test_reading_begins_where_it_was_asked_to(bootstrap: str, topic: str) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    with Producer(bootstrap) as producer:
        for number in range(10):
            producer.send(topic, str(number), timestamp=at + timedelta(seconds=number))
    for start in (6, at + timedelta(seconds=5, milliseconds=1)):
        with Consumer(topic, bootstrap=bootstrap, start=start) as consumer:
            assert [record.offset for record in consumer.records(limit=4)] == [6, 7, 8, 9]
    with Consumer(topic, bootstrap=bootstrap, start="latest") as consumer:
        assert list(consumer.records(idle_s=IDLE_S)) == []


def test_a_pattern_finds_its_topics(bootstrap: str, new_topic: NewTopic) -> None:
    one, other = new_topic(), new_topic()
    with Producer(bootstrap) as producer:
        producer.send(one, b"1")
        producer.send(other, b"2")
    with Consumer(re.compile(f"{one}|{other}"), bootstrap=bootstrap) as consumer:
        assert {record.topic for record in consumer.records(limit=2)} == {one, other}


def test_seeking_pausing_and_positions(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    with Producer(bootstrap) as producer:
        for number in range(20):
            producer.send(topic, str(number), partition=number % 2)
    a, b = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with Consumer(bootstrap=bootstrap) as consumer:
        consumer.assign({a: "earliest", b: 5})
        assert (consumer.positions(), consumer.lag()) == ({b: 5}, {a: 10, b: 5})
        assert len(list(consumer.records(limit=15))) == 15
        assert consumer.positions() == {a: 10, b: 10}
        assert consumer.lag() == {a: 0, b: 0}
        consumer.seek(a, 3)
        consumer.seek(b, 0)
        assert (consumer.positions(), consumer.lag()) == ({a: 3, b: 0}, {a: 7, b: 10})
        first = consumer.poll(10)
        assert first is not None
        consumer.pause(b)
        seen = list(consumer.records(limit=6 if first.partition == 0 else 7))
        assert {record.partition for record in seen} == {0}
        consumer.resume()
        rest = list(consumer.records(limit=10 if first.partition == 0 else 9))
        assert {record.partition for record in rest} == {1}


def test_an_unknown_topic_is_named(bootstrap: str, name: str) -> None:
    with pytest.raises(millstream.UnknownTopic, match=name):
        Consumer(name, bootstrap=bootstrap)


def test_stop_ends_a_loop_from_another_thread(bootstrap: str, topic: str) -> None:
    with Consumer(topic, bootstrap=bootstrap) as consumer:
        timer = threading.Timer(0.2, consumer.stop)
        timer.start()
        assert list(consumer) == []
        timer.join()


def test_a_consumer_without_a_group_commits_nothing(bootstrap: str, topic: str) -> None:
    with Consumer(topic, bootstrap=bootstrap) as consumer, pytest.raises(millstream.BadUse, match="pass group="):
        consumer.commit()


def test_what_is_closed_says_so(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap) as producer, Consumer(topic, bootstrap=bootstrap) as consumer:
        pass
    with pytest.raises(millstream.BadUse, match="closed"):
        producer.send(topic, b"x")
    with pytest.raises(millstream.BadUse, match="closed"):
        next(iter(consumer))
