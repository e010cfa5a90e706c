"""Settings of topics and brokers, as each client reads and changes them."""

from __future__ import annotations

import pytest

from tests.compatibility.clients import each_driver
from tests.compatibility.conftest import BOOTSTRAP, NewTopic
from tests.compatibility.drivers import Driver
from tests.compatibility.drivers.base import Record, Refused
from tests.system.cluster_process import SETTINGS as CLUSTER

MESSAGE_TOO_LARGE, INVALID_CONFIG = 10, 40
DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "index.interval.bytes": "4096",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}

#: What the brokers were started with in place of a default.
STARTED_WITH = {name: str(CLUSTER[name]) for name in DEFAULTS.keys() & CLUSTER.keys()} if BOOTSTRAP == "cluster" else {}


@each_driver("describe_configs")
def test_a_topics_settings_are_kafkas_defaults(driver: Driver, topic: str) -> None:
    found = driver.describe_configs(topic)
    assert {name: found.get(name) for name in DEFAULTS} == {**DEFAULTS, **STARTED_WITH}


@each_driver("describe_broker_configs", "describe_cluster")
def test_a_brokers_settings_are_described(driver: Driver) -> None:
    found = driver.describe_broker_configs(driver.describe_cluster().controller)
    assert found["log.retention.hours"] == "168"
    assert found["message.max.bytes"] == "1048588"
    assert found["auto.create.topics.enable"] == "true"
    assert found["log.dirs"]


@each_driver("alter_configs", "describe_configs")
def test_an_incremental_change_leaves_the_other_settings(driver: Driver, new_topic: NewTopic) -> None:
    topic = new_topic(retention_ms="111", segment_ms="222")
    driver.alter_configs(topic, {"retention.ms": "333", "flush.ms": "444"})
    assert picked(driver, topic) == {"retention.ms": "333", "segment.ms": "222", "flush.ms": "444"}
    driver.alter_configs(topic, {"retention.ms": None})
    assert picked(driver, topic) == {"retention.ms": "604800000", "segment.ms": "222", "flush.ms": "444"}


@each_driver("replace_configs", "describe_configs")
def test_a_whole_change_takes_the_other_settings_back(driver: Driver, new_topic: NewTopic) -> None:
    topic = new_topic(retention_ms="111", segment_ms="222")
    driver.replace_configs(topic, {"flush.ms": "444"})
    assert picked(driver, topic) == {
        "retention.ms": DEFAULTS["retention.ms"],
        "segment.ms": DEFAULTS["segment.ms"],
        "flush.ms": "444",
    }


@each_driver("alter_configs")
@pytest.mark.parametrize("change", [{"retention.ms": "soon"}, {"no.such.setting": "1"}, {"cleanup.policy": "burn"}])
def test_a_bad_incremental_change_is_refused(driver: Driver, topic: str, change: dict[str, str]) -> None:
    with pytest.raises(Refused) as refused:
        driver.alter_configs(topic, {**change, "flush.ms": "5"})
    assert refused.value.code == INVALID_CONFIG
    assert driver.describe_configs(topic)["flush.ms"] == DEFAULTS["flush.ms"]


@each_driver("replace_configs")
def test_a_bad_whole_change_is_refused(driver: Driver, topic: str) -> None:
    with pytest.raises(Refused) as refused:
        driver.replace_configs(topic, {"retention.ms": "soon"})
    assert refused.value.code == INVALID_CONFIG


@each_driver("alter_configs", "produce")
def test_a_changed_setting_takes_effect(driver: Driver, topic: str) -> None:
    driver.alter_configs(topic, {"max.message.bytes": "1000"})
    with pytest.raises(Refused) as refused:
        driver.produce(topic, [Record(b"x" * 2000)])
    assert refused.value.code == MESSAGE_TOO_LARGE
    driver.alter_configs(topic, {"max.message.bytes": None})
    assert driver.produce(topic, [Record(b"x" * 2000)]) == [0]


def picked(driver: Driver, topic: str) -> dict[str, str | None]:
    found = driver.describe_configs(topic)
    return {name: found[name] for name in ("retention.ms", "segment.ms", "flush.ms")}
