"""Topics, partitions and the cluster, as each client manages and sees them."""

from __future__ import annotations

import time

import pytest

from tests.compatibility.clients import each_driver
from tests.compatibility.conftest import NewTopic, wait_for_leaders
from tests.compatibility.drivers import Driver
from tests.compatibility.drivers.base import EARLIEST, Record, Refused

UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC, TOPIC_EXISTS = 3, 17, 36
INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, INVALID_CONFIG = 37, 38, 40


@each_driver("create_topic", "describe_topic", "describe_configs")
def test_a_created_topic_has_the_partitions_and_settings_it_was_given(driver: Driver, name: str) -> None:
    driver.create_topic(name, partitions=3, configs={"retention.ms": "1234567", "cleanup.policy": "compact"})
    wait_for_leaders(driver, name, 3)
    found = driver.describe_topic(name)
    assert [row.index for row in found] == [0, 1, 2]
    assert all(row.replicas == row.in_sync == (row.leader,) for row in found)
    configs = driver.describe_configs(name)
    assert (configs["retention.ms"], configs["cleanup.policy"]) == ("1234567", "compact")
    assert name in driver.list_topics()


@each_driver("create_topic", where=lambda driver: driver.name in ("java", "confluent", "kafka-python"))
def test_a_topic_created_without_numbers_takes_the_brokers(driver: Driver, seed: Driver, name: str) -> None:
    driver.create_topic(name, partitions=-1, replicas=-1)
    wait_for_leaders(seed, name, 1)


@each_driver("create_topic")
def test_a_topic_cannot_be_created_twice(driver: Driver, topic: str) -> None:
    with pytest.raises(Refused) as refused:
        driver.create_topic(topic)
    assert refused.value.code == TOPIC_EXISTS


@each_driver("create_topic")
@pytest.mark.parametrize(
    ("code", "options"),
    [
        (INVALID_REPLICATION_FACTOR, {"replicas": 4}),  # no cluster here has as many brokers
        (INVALID_PARTITIONS, {"partitions": 0}),
        (INVALID_CONFIG, {"configs": {"retention.ms": "soon"}}),
        (INVALID_CONFIG, {"configs": {"no.such.setting": "1"}}),
    ],
    ids=["replicas", "partitions", "value", "setting"],
)
def test_a_topic_that_cannot_be_is_refused(driver: Driver, name: str, code: int, options: dict[str, object]) -> None:
    with pytest.raises(Refused) as refused:
        driver.create_topic(name, **options)  # type: ignore[arg-type]
    assert refused.value.code == code
    assert name not in driver.list_topics()


@each_driver("create_topic", where=lambda driver: driver.name in ("java", "confluent", "aiokafka"))
@pytest.mark.parametrize("bad", ["no/slash", "x" * 250, ".."])
def test_a_topic_with_a_bad_name_is_refused(driver: Driver, bad: str) -> None:
    with pytest.raises(Refused) as refused:
        driver.create_topic(bad)
    assert refused.value.code == INVALID_TOPIC


@each_driver("delete_topic", "list_topics")
def test_a_deleted_topic_is_gone_and_its_name_is_free(driver: Driver, seed: Driver, topic: str) -> None:
    seed.produce(topic, [Record(b"old")])
    driver.delete_topic(topic)
    deadline = time.monotonic() + 10
    while topic in driver.list_topics():
        assert time.monotonic() < deadline, "the topic is still listed"
        time.sleep(0.05)
    seed.create_topic(topic, partitions=2)
    wait_for_leaders(seed, topic, 2)
    seed.produce(topic, [Record(b"new")])
    with seed.read(topic, EARLIEST) as reader:
        assert [row.value for row in reader.take(1)] == [b"new"]


@each_driver("delete_topic", where=lambda driver: driver.name != "kafkajs")
def test_deleting_an_unknown_topic_is_refused(driver: Driver, name: str) -> None:
    with pytest.raises(Refused) as refused:
        driver.delete_topic(name)
    assert refused.value.code == UNKNOWN_TOPIC_OR_PARTITION


@each_driver("create_partitions", "describe_topic")
def test_added_partitions_can_be_written_and_read(driver: Driver, seed: Driver, topic: str) -> None:
    driver.create_partitions(topic, 4)
    wait_for_leaders(seed, topic, 4)
    assert [row.index for row in driver.describe_topic(topic)] == [0, 1, 2, 3]
    driver.produce(topic, [Record(b"v")], partition=3)
    with driver.read(topic, EARLIEST, partition=3) as reader:
        assert [row.value for row in reader.take(1)] == [b"v"]


@each_driver("create_partitions")
@pytest.mark.parametrize("total", [1, 2])
def test_a_topic_never_loses_partitions(driver: Driver, new_topic: NewTopic, total: int) -> None:
    topic = new_topic(partitions=2)
    with pytest.raises(Refused) as refused:
        driver.create_partitions(topic, total)
    assert refused.value.code == INVALID_PARTITIONS


@each_driver("describe_cluster")
def test_the_cluster_is_described_with_its_brokers_and_controller(driver: Driver, bootstrap: str) -> None:
    found = driver.describe_cluster()
    assert found.controller in found.brokers
    addresses = {address.replace("localhost", "127.0.0.1") for address in found.brokers.values()}
    assert addresses >= set(bootstrap.split(","))
    if driver.name != "aiokafka":
        assert found.cluster_id


@each_driver("describe_log_dirs")
def test_log_directories_tell_the_size_of_each_partition(driver: Driver, seed: Driver, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    seed.produce(topic, [Record(b"x" * 1000)], partition=1)
    sizes = driver.describe_log_dirs(topic)
    assert set(sizes) == {0, 1} and sizes[0] == 0 and sizes[1] > 1000


@each_driver("produce")
def test_writing_to_an_unknown_topic_creates_it(driver: Driver, seed: Driver, name: str) -> None:
    driver.produce(name, [Record(b"first")])
    with seed.read(name, EARLIEST) as reader:
        assert [row.value for row in reader.take(1)] == [b"first"]


@each_driver("describe_topic", where=lambda driver: driver.name not in ("kcat", "aiokafka"))
def test_describing_an_unknown_topic_is_refused_and_creates_nothing(driver: Driver, seed: Driver, name: str) -> None:
    with pytest.raises(Refused) as refused:
        driver.describe_topic(name)
    assert refused.value.code == UNKNOWN_TOPIC_OR_PARTITION
    assert name not in seed.list_topics()
