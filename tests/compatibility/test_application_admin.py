"""millstream.Admin: the cluster, its topics and their settings."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

import millstream
from millstream import Admin, Producer, TopicPartition
from tests.compatibility.apache_kafka import free_port


def wait_until(holds: Callable[[], bool], timeout_s: float = 10) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


@pytest.fixture
def admin(bootstrap: str) -> Iterator[Admin]:
    with Admin(bootstrap) as admin:
        yield admin


def test_the_cluster_shows_its_brokers(admin: Admin, bootstrap: str) -> None:
    found = admin.cluster()
    assert found.id
    assert sorted(f"{broker.host}:{broker.port}" for broker in found.brokers) == sorted(bootstrap.split(","))
    assert found.controller in {broker.id for broker in found.brokers}


def test_a_topic_is_made_described_widened_and_deleted(admin: Admin, name: str) -> None:
    assert admin.create_topic(name, 2, config={"retention.ms": 1234})
    wait_until(lambda: name in admin.topics())
    admin.add_partitions(name, 3)
    wait_until(lambda: len(admin.describe_topic(name).partitions) == 3)
    found = admin.describe_topic(name)
    assert [(row.index, row.leader in row.in_sync) for row in found.partitions] == [(0, True), (1, True), (2, True)]
    assert admin.delete_topic(name)
    wait_until(lambda: name not in admin.topics())
    with pytest.raises(millstream.UnknownTopic, match=name):
        admin.describe_topic(name)


def test_a_topic_there_is_and_one_there_is_not(admin: Admin, name: str, topic: str) -> None:
    with pytest.raises(millstream.TopicExists, match="exist_ok=True"):
        admin.create_topic(topic)
    assert not admin.create_topic(topic, exist_ok=True)
    with pytest.raises(millstream.UnknownTopic):
        admin.delete_topic(name)
    assert not admin.delete_topic(name, missing_ok=True)


def test_settings_are_read_changed_and_taken_back(admin: Admin, topic: str) -> None:
    before = admin.topic_config(topic)["retention.ms"]
    assert (before.value, before.is_default) == ("604800000", True)
    admin.set_topic_config(topic, {"retention.ms": 5000, "flush.ms": "7"})
    wait_until(lambda: not admin.topic_config(topic)["retention.ms"].is_default)
    changed = admin.topic_config(topic)
    assert (changed["retention.ms"].value, changed["retention.ms"].source) == ("5000", "dynamic_topic_config")
    admin.set_topic_config(topic, {"retention.ms": None})
    wait_until(lambda: admin.topic_config(topic)["retention.ms"].is_default)  # Apache Kafka answers before it holds.
    after = admin.topic_config(topic)
    assert (after["retention.ms"].value, after["flush.ms"].value) == ("604800000", "7")
    with pytest.raises(millstream.Refused) as refused:
        admin.set_topic_config(topic, {"no.such.setting": 1})
    assert refused.value.code == "INVALID_CONFIG"


def test_a_brokers_settings_are_read(admin: Admin) -> None:
    assert admin.broker_config(admin.cluster().brokers[0].id)["log.retention.hours"].value == "168"


def test_offsets_at_both_ends_and_at_a_time_and_records_deleted(admin: Admin, bootstrap: str, topic: str) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    with Producer(bootstrap) as producer:
        for number in range(10):
            producer.send(topic, b"x", timestamp=at + timedelta(seconds=number))
    tp = TopicPartition(topic, 0)
    assert (admin.offsets(topic, "earliest"), admin.offsets(topic)) == ({tp: 0}, {tp: 10})
    assert admin.offsets(topic, at + timedelta(seconds=4)) == {tp: 4}
    assert admin.offsets(topic, at + timedelta(days=1)) == {tp: 10}
    assert admin.delete_records({tp: 6}) == {tp: 6}
    assert admin.offsets(topic, "earliest") == {tp: 6}
    assert admin.delete_records({tp: None}) == {tp: 10}


def test_nobody_there_is_said_with_what_to_do() -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    told = f"{nowhere}; is one running"
    with Admin(nowhere, timeout_s=0.5) as admin, pytest.raises(millstream.Unreachable, match=told):
        admin.topics()


def test_a_closed_admin_says_so(bootstrap: str) -> None:
    with Admin(bootstrap) as admin:
        pass
    with pytest.raises(millstream.BadUse, match="closed"):
        admin.topics()
