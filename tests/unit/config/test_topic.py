"""A topic takes the broker's values where it has none of its own."""

import dataclasses

import pytest

from millstream.config.broker import BrokerConfig
from millstream.config.topic import TOPIC_SETTINGS, TopicConfig, check_topic_overrides
from millstream.model.errors import ErrorCode, ProtocolError


def test_defaults_are_kafkas() -> None:
    config = TopicConfig.resolve(BrokerConfig.load())
    assert config.segment_bytes == 1_073_741_824
    assert config.segment_ms == 604_800_000
    assert config.retention_ms == 604_800_000
    assert config.retention_bytes == -1
    assert config.max_message_bytes == 1_048_588
    assert (config.cleanup_delete, config.cleanup_compact) == (True, False)
    assert config.message_timestamp_type == "CreateTime"
    assert config.message_timestamp_after_max_ms == 3_600_000
    assert config.delete_retention_ms == 86_400_000
    assert config.flush_messages == config.flush_ms == 2**63 - 1
    assert config.index_interval_bytes == 4096
    assert config.segment_index_bytes == 10_485_760
    assert config.compression_type == "producer"
    assert config.min_cleanable_dirty_ratio == 0.5
    assert config.file_delete_delay_ms == 60_000


def test_every_setting_is_an_attribute_and_every_attribute_a_setting() -> None:
    attributes = {field.name for field in dataclasses.fields(TopicConfig)} - {"cleanup_delete", "cleanup_compact"}
    assert attributes == {name.replace(".", "_") for name in TOPIC_SETTINGS} - {"cleanup_policy"}


def test_own_values_win_over_the_brokers_and_the_brokers_over_defaults() -> None:
    broker = BrokerConfig.load(overrides=["log.segment.bytes=5000", "log.retention.minutes=1", "log.roll.hours=1"])
    inherited = TopicConfig.resolve(broker)
    assert (inherited.segment_bytes, inherited.retention_ms, inherited.segment_ms) == (5000, 60_000, 3_600_000)
    own = TopicConfig.resolve(broker, {"segment.bytes": "600", "retention.ms": "7"})
    assert (own.segment_bytes, own.retention_ms, own.segment_ms) == (600, 7, 3_600_000)


def test_a_brokers_change_reaches_its_topics() -> None:
    broker = BrokerConfig.load().with_changes(dynamic={"log.cleanup.policy": "compact"})
    assert TopicConfig.resolve(broker).cleanup_compact
    assert not TopicConfig.resolve(broker).cleanup_delete


@pytest.mark.parametrize(
    ("text", "delete", "compact"),
    [
        ("delete", True, False),
        ("compact", False, True),
        ("compact, delete", True, True),
        ("delete,compact", True, True),
    ],
)
def test_a_cleanup_policy_is_two_truths(text: str, delete: bool, compact: bool) -> None:
    config = TopicConfig.resolve(BrokerConfig.load(), {"cleanup.policy": text})
    assert (config.cleanup_delete, config.cleanup_compact) == (delete, compact)


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        ({"retention": "1"}, "unknown setting 'retention'"),
        ({"retention.m": "1"}, "did you mean 'retention.ms'"),
        ({"retention.ms": "-2"}, "retention.ms=-2: must be .*at least -1"),
        ({"segment.bytes": "1GB"}, "segment.bytes=1GB: must be a whole number"),
        ({"cleanup.policy": ""}, "one or more of delete, compact"),
        ({"message.timestamp.type": "createtime"}, "one of CreateTime, LogAppendTime"),
        ({"min.insync.replicas": "0"}, "at least 1"),
        ({"min.compaction.lag.ms": "9", "max.compaction.lag.ms": "8"}, "at most max.compaction.lag.ms, 8"),
    ],
)
def test_a_bad_override_is_a_refusal_the_client_is_told(overrides: dict[str, str], complaint: str) -> None:
    for refuse in (check_topic_overrides, lambda own: TopicConfig.resolve(BrokerConfig.load(), own)):
        with pytest.raises(ProtocolError, match=complaint) as caught:
            refuse(overrides)
        assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_checked_overrides_come_back_parsed() -> None:
    assert check_topic_overrides({"retention.ms": "5", "preallocate": "false"}) == {
        "retention.ms": 5,
        "preallocate": False,
    }


@pytest.mark.parametrize(
    ("overrides", "level"),
    [
        ({"compression.type": "gzip"}, None),
        ({"compression.type": "gzip", "compression.gzip.level": "9"}, 9),
        ({"compression.type": "lz4"}, 9),
        ({"compression.type": "zstd", "compression.zstd.level": "22", "compression.lz4.level": "1"}, 22),
        ({"compression.type": "snappy"}, None),
        ({"compression.type": "producer", "compression.gzip.level": "9"}, None),
    ],
)
def test_the_level_is_that_of_the_topics_codec(overrides: dict[str, str], level: int | None) -> None:
    assert TopicConfig.resolve(BrokerConfig.load(), overrides).compression_level == level
