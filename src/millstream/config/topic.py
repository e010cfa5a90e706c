"""Settings of a topic: the table, and a topic's values as plain attributes for those who ask at every append.

A topic without a value of its own takes the broker's, under the name that the broker's tables give it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from millstream.config import log
from millstream.config.broker import BrokerConfig
from millstream.config.setting import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    STRING,
    Check,
    Fallback,
    Kind,
    Setting,
    SettingError,
    at_least,
    between,
    unknown,
)
from millstream.model.errors import ErrorCode, ProtocolError


def _topic(name: str, kind: Kind[Any], broker: Setting[Any], check: Check | None = None) -> Setting[Any]:
    """A topic's setting that says for one topic what ``broker`` says for all."""
    return Setting(
        name,
        kind,
        default=None,
        doc=broker.doc,
        check=check or broker.check,
        dynamic=True,
        fallbacks=(Fallback(broker), *broker.fallbacks),
    )


#: Replicas by name, as PARTITION:BROKER; or all of them.
REPLICAS = Check(
    "* or a list of PARTITION:BROKER",
    lambda names: tuple(names) == ("*",) or all(re.fullmatch(r"[0-9]+:[0-9]+", name) for name in names),
)

CLEANUP_POLICY = _topic("cleanup.policy", LIST, log.LOG_CLEANUP_POLICY)
COMPRESSION_GZIP_LEVEL = _topic("compression.gzip.level", INT, log.COMPRESSION_GZIP_LEVEL)
COMPRESSION_LZ4_LEVEL = _topic("compression.lz4.level", INT, log.COMPRESSION_LZ4_LEVEL)
COMPRESSION_TYPE = _topic("compression.type", STRING, log.COMPRESSION_TYPE)
COMPRESSION_ZSTD_LEVEL = _topic("compression.zstd.level", INT, log.COMPRESSION_ZSTD_LEVEL)
DELETE_RETENTION_MS = _topic("delete.retention.ms", LONG, log.LOG_CLEANER_DELETE_RETENTION_MS)
FILE_DELETE_DELAY_MS = _topic("file.delete.delay.ms", LONG, log.LOG_SEGMENT_DELETE_DELAY_MS)
FLUSH_MESSAGES = _topic("flush.messages", LONG, log.LOG_FLUSH_INTERVAL_MESSAGES)
FLUSH_MS = _topic("flush.ms", LONG, log.LOG_FLUSH_INTERVAL_MS, at_least(0))
FOLLOWER_REPLICATION_THROTTLED_REPLICAS: Setting[tuple[str, ...]] = Setting(
    "follower.replication.throttled.replicas",
    LIST,
    default=(),
    check=REPLICAS,
    dynamic=True,
    doc="Replicas that fetch no faster than follower.replication.throttled.rate while they catch up.",
)
INDEX_INTERVAL_BYTES = _topic("index.interval.bytes", INT, log.LOG_INDEX_INTERVAL_BYTES)
LEADER_REPLICATION_THROTTLED_REPLICAS: Setting[tuple[str, ...]] = Setting(
    "leader.replication.throttled.replicas",
    LIST,
    default=(),
    check=REPLICAS,
    dynamic=True,
    doc="Replicas that, as leaders, send no faster than leader.replication.throttled.rate to those that catch up.",
)
MAX_COMPACTION_LAG_MS = _topic("max.compaction.lag.ms", LONG, log.LOG_CLEANER_MAX_COMPACTION_LAG_MS)
MAX_MESSAGE_BYTES = _topic("max.message.bytes", INT, log.MESSAGE_MAX_BYTES)
MESSAGE_TIMESTAMP_AFTER_MAX_MS = _topic("message.timestamp.after.max.ms", LONG, log.LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS)
MESSAGE_TIMESTAMP_BEFORE_MAX_MS = _topic(
    "message.timestamp.before.max.ms", LONG, log.LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS
)
MESSAGE_TIMESTAMP_TYPE = _topic("message.timestamp.type", STRING, log.LOG_MESSAGE_TIMESTAMP_TYPE)
MIN_CLEANABLE_DIRTY_RATIO = _topic(
    "min.cleanable.dirty.ratio", DOUBLE, log.LOG_CLEANER_MIN_CLEANABLE_RATIO, between(0, 1)
)
MIN_COMPACTION_LAG_MS = _topic("min.compaction.lag.ms", LONG, log.LOG_CLEANER_MIN_COMPACTION_LAG_MS)
MIN_INSYNC_REPLICAS = _topic("min.insync.replicas", INT, log.MIN_INSYNC_REPLICAS)
PREALLOCATE = _topic("preallocate", BOOLEAN, log.LOG_PREALLOCATE)
RETENTION_BYTES = _topic("retention.bytes", LONG, log.LOG_RETENTION_BYTES)
RETENTION_MS = _topic("retention.ms", LONG, log.LOG_RETENTION_MS, at_least(-1))
SEGMENT_BYTES = _topic("segment.bytes", INT, log.LOG_SEGMENT_BYTES)
SEGMENT_INDEX_BYTES = _topic("segment.index.bytes", INT, log.LOG_INDEX_SIZE_MAX_BYTES)
SEGMENT_JITTER_MS = _topic("segment.jitter.ms", LONG, log.LOG_ROLL_JITTER_MS)
SEGMENT_MS = _topic("segment.ms", LONG, log.LOG_ROLL_MS)
UNCLEAN_LEADER_ELECTION_ENABLE = _topic("unclean.leader.election.enable", BOOLEAN, log.UNCLEAN_LEADER_ELECTION_ENABLE)

#: Every setting a topic has, by name.
TOPIC_SETTINGS: dict[str, Setting[Any]] = {
    setting.name: setting for setting in list(globals().values()) if isinstance(setting, Setting)
}

#: The value of compression.gzip.level that leaves it to the codec.
GZIP_USUAL = -1


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic's values in force; each attribute is the setting of that name with dots for underscores.

    The one exception: ``cleanup.policy`` is two truths, of which at least one holds.
    """

    cleanup_delete: bool
    cleanup_compact: bool
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    follower_replication_throttled_replicas: tuple[str, ...]
    index_interval_bytes: int
    leader_replication_throttled_replicas: tuple[str, ...]
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool

    @property
    def compression_level(self) -> int | None:
        """The level for the codec of the topic's own; None for that codec's usual one."""
        levels = {
            "gzip": None if self.compression_gzip_level == GZIP_USUAL else self.compression_gzip_level,
            "lz4": self.compression_lz4_level,
            "zstd": self.compression_zstd_level,
        }
        return levels.get(self.compression_type)

    @classmethod
    def resolve(cls, broker: BrokerConfig, overrides: Mapping[str, str] | None = None) -> "TopicConfig":
        """The topic's own values where it has them, the broker's elsewhere; INVALID_CONFIG for a bad override."""
        own = check_topic_overrides(overrides or {})
        values: dict[str, Any] = {
            name.replace(".", "_"): own[name] if name in own else inherited(broker, setting)
            for name, setting in TOPIC_SETTINGS.items()
        }
        policy = values.pop("cleanup_policy")
        return cls(cleanup_delete="delete" in policy, cleanup_compact="compact" in policy, **values)


def inherited(broker: BrokerConfig, setting: Setting[Any]) -> Any:
    """What a topic has that says nothing of its own: the broker's value, or the default where only topics have one."""
    return broker.get(setting.fallbacks[0].setting) if setting.fallbacks else setting.default


def throttles(replicas: tuple[str, ...], partition: int, broker_id: int) -> bool:
    """Whether one of the settings that name throttled replicas names this one."""
    return bool(replicas) and (replicas == ("*",) or f"{partition}:{broker_id}" in replicas)


def check_topic_overrides(overrides: Mapping[str, str]) -> dict[str, Any]:
    """The parsed values of a topic's own settings, or INVALID_CONFIG saying which is wrong and what is allowed."""
    values = {}
    try:
        for name, text in overrides.items():
            if name not in TOPIC_SETTINGS:
                raise SettingError(unknown(name, TOPIC_SETTINGS))
            values[name] = TOPIC_SETTINGS[name].parse(text)
        least, most = values.get(MIN_COMPACTION_LAG_MS.name), values.get(MAX_COMPACTION_LAG_MS.name)
        if least is not None and most is not None and least > most:
            raise SettingError(f"{MIN_COMPACTION_LAG_MS.name}={least}: must be at most max.compaction.lag.ms, {most}")
    except SettingError as error:
        raise ProtocolError(ErrorCode.INVALID_CONFIG, str(error)) from error
    return values
