"""The broker's settings that groups obey, under Kafka's names."""

from dataclasses import dataclass
from functools import lru_cache

from millstream.config import groups
from millstream.config.broker import BrokerConfig
from millstream.config.setting import MINUTE_MS

KIB = 1024


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Kafka's ``group.*`` and ``offset.*`` settings with its defaults; the broker gives its own values."""

    group_initial_rebalance_delay_ms: int = 3_000
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2**31 - 1
    #: How long a member id that was handed out may stay unused is the session timeout it asked for.
    group_consumer_session_timeout_ms: int = 45_000
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_max_size: int = 2**31 - 1
    #: The first is used when a group asks for none.
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    #: disabled, upgrade, downgrade or bidirectional.
    group_consumer_migration_policy: str = "bidirectional"
    group_consumer_regex_refresh_interval_ms: int = 600_000
    offset_metadata_max_bytes: int = 4 * KIB
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    offsets_retention_check_interval_ms: int = 600_000
    #: Whether members may speak the protocol of KIP-848.
    has_consumer_protocol: bool = True


@lru_cache(maxsize=2)
def group_settings(config: BrokerConfig) -> GroupSettings:
    """A broker's own values; asked for at every request, and reckoned once, for a config never changes."""
    return GroupSettings(
        group_initial_rebalance_delay_ms=config.get(groups.GROUP_INITIAL_REBALANCE_DELAY_MS),
        group_min_session_timeout_ms=config.get(groups.GROUP_MIN_SESSION_TIMEOUT_MS),
        group_max_session_timeout_ms=config.get(groups.GROUP_MAX_SESSION_TIMEOUT_MS),
        group_max_size=config.get(groups.GROUP_MAX_SIZE),
        group_consumer_session_timeout_ms=config.get(groups.GROUP_CONSUMER_SESSION_TIMEOUT_MS),
        group_consumer_heartbeat_interval_ms=config.get(groups.GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS),
        group_consumer_max_size=config.get(groups.GROUP_CONSUMER_MAX_SIZE),
        group_consumer_assignors=config.get(groups.GROUP_CONSUMER_ASSIGNORS),
        group_consumer_migration_policy=config.get(groups.GROUP_CONSUMER_MIGRATION_POLICY),
        group_consumer_regex_refresh_interval_ms=config.get(groups.GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS),
        offset_metadata_max_bytes=config.get(groups.OFFSET_METADATA_MAX_BYTES),
        offsets_retention_ms=config.get(groups.OFFSETS_RETENTION_MINUTES) * MINUTE_MS,
        offsets_retention_check_interval_ms=config.get(groups.OFFSETS_RETENTION_CHECK_INTERVAL_MS),
        has_consumer_protocol=groups.CONSUMER in config.get(groups.GROUP_COORDINATOR_REBALANCE_PROTOCOLS),
    )
