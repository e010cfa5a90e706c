"""What DescribeConfigs answers, and where each value is said to come from."""

from millstream.config.broker import BROKER_SETTINGS, BrokerConfig
from millstream.config.describe import Description, Synonym, describe_broker, describe_topic
from millstream.config.setting import INT, LIST
from millstream.config.sources import Source
from millstream.config.topic import TOPIC_SETTINGS


def named(descriptions: list[Description], name: str) -> Description:
    return next(found for found in descriptions if found.name == name)


def test_every_setting_is_described_once() -> None:
    assert [found.name for found in describe_broker(BrokerConfig.load())] == list(BROKER_SETTINGS)
    assert [found.name for found in describe_topic(BrokerConfig.load(), {})] == list(TOPIC_SETTINGS)


def test_a_default_is_called_one() -> None:
    found = named(describe_broker(BrokerConfig.load()), "num.partitions")
    assert (found.value, found.source, found.is_default, found.is_read_only) == ("1", Source.DEFAULT, True, True)
    assert (found.kind, found.synonyms) == (INT.code, [Synonym("num.partitions", "1", Source.DEFAULT)])
    assert "partitions" in found.doc


def test_every_layer_is_a_synonym_and_the_strongest_is_the_value() -> None:
    config = BrokerConfig.load(overrides=["message.max.bytes=1"]).with_changes(
        dynamic={"message.max.bytes": "3"}, dynamic_default={"message.max.bytes": "2"}
    )
    found = named(describe_broker(config), "message.max.bytes")
    assert (found.value, found.source, found.is_read_only) == ("3", Source.DYNAMIC_BROKER, False)
    assert [(synonym.value, synonym.source) for synonym in found.synonyms] == [
        ("3", Source.DYNAMIC_BROKER),
        ("2", Source.DYNAMIC_DEFAULT_BROKER),
        ("1", Source.STATIC_BROKER),
        ("1048588", Source.DEFAULT),
    ]


def test_a_topic_shows_its_own_value_before_the_brokers_under_the_brokers_names() -> None:
    config = BrokerConfig.load(overrides=["log.retention.minutes=2"])
    found = named(describe_topic(config, {"retention.ms": "0007"}), "retention.ms")
    assert (found.value, found.source, found.is_read_only) == ("7", Source.TOPIC, False)
    assert found.synonyms == [
        Synonym("retention.ms", "7", Source.TOPIC),
        Synonym("log.retention.minutes", "2", Source.STATIC_BROKER),
        Synonym("log.retention.hours", "168", Source.DEFAULT),
    ]
    inherited = named(describe_topic(config, {}), "retention.ms")
    assert (inherited.value, inherited.source) == ("120000", Source.STATIC_BROKER)


def test_lists_and_booleans_are_written_as_kafka_writes_them() -> None:
    found = named(describe_topic(BrokerConfig.load(), {"cleanup.policy": "compact, delete"}), "cleanup.policy")
    assert (found.value, found.kind) == ("compact,delete", LIST.code)
    assert named(describe_topic(BrokerConfig.load(), {}), "preallocate").value == "false"


def test_a_setting_that_nobody_set_has_no_value() -> None:
    found = named(describe_broker(BrokerConfig.load()), "broker.rack")
    assert (found.value, found.source, found.synonyms) == (None, Source.DEFAULT, [])
