"""The broker's settings that groups obey, under Kafka's names."""

from dataclasses import dataclass

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
