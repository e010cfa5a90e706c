"""A broker's values: the table, the layers, and what holds between settings."""

import pytest

from millstream.config.broker import BROKER_ID, BROKER_SETTINGS, LOG_DIRS, BrokerConfig
from millstream.config.log import LOG_FLUSH_INTERVAL_MS, LOG_RETENTION_MS, LOG_ROLL_MS, MESSAGE_MAX_BYTES
from millstream.config.network import LISTENERS
from millstream.config.setting import LONG_MAX, SettingError


def loaded(*overrides: str) -> BrokerConfig:
    return BrokerConfig.load(overrides=overrides)


@pytest.mark.parametrize("name", BROKER_SETTINGS)
def test_every_default_passes_its_own_check_and_every_setting_is_documented(name: str) -> None:
    setting = BROKER_SETTINGS[name]
    assert setting.doc.endswith(".")
    if setting.default is not None:
        assert setting.parse(setting.text(setting.default)) == setting.default
    for fallback in setting.fallbacks:
        assert BROKER_SETTINGS[fallback.setting.name] is fallback.setting


@pytest.mark.parametrize(
    ("overrides", "retention_ms"),
    [
        ((), 7 * 24 * 3_600_000),
        (("log.retention.hours=2",), 7_200_000),
        (("log.retention.hours=2", "log.retention.minutes=3"), 180_000),
        (("log.retention.hours=2", "log.retention.minutes=3", "log.retention.ms=4"), 4),
        (("log.retention.hours=-1",), -1),
        (("log.retention.ms=-1", "log.retention.hours=2"), -1),
    ],
)
def test_the_finest_unit_that_is_set_counts(overrides: tuple[str, ...], retention_ms: int) -> None:
    assert loaded(*overrides).get(LOG_RETENTION_MS) == retention_ms


def test_other_units_fall_back_likewise() -> None:
    assert loaded("log.roll.hours=1").get(LOG_ROLL_MS) == 3_600_000
    assert loaded().get(LOG_FLUSH_INTERVAL_MS) == LONG_MAX
    assert loaded("log.flush.scheduler.interval.ms=9").get(LOG_FLUSH_INTERVAL_MS) == 9


def test_dynamic_beats_cluster_wide_beats_static() -> None:
    config = loaded("message.max.bytes=1")
    assert config.get(MESSAGE_MAX_BYTES) == 1
    config = config.with_changes(dynamic_default={"message.max.bytes": "2"})
    assert config.get(MESSAGE_MAX_BYTES) == 2
    config = config.with_changes(dynamic={"message.max.bytes": "3"})
    assert config.get(MESSAGE_MAX_BYTES) == 3
    assert config.with_changes(dynamic={}).get(MESSAGE_MAX_BYTES) == 2
    assert config.with_changes(dynamic={}, dynamic_default={}).get(MESSAGE_MAX_BYTES) == 1


def test_a_dynamic_retention_beats_a_finer_static_one() -> None:
    config = loaded("log.retention.minutes=1").with_changes(dynamic={"log.retention.ms": "5"})
    assert config.get(LOG_RETENTION_MS) == 5


def test_the_broker_has_one_number_under_two_names() -> None:
    assert loaded().broker_id == 0
    assert loaded("broker.id=4").broker_id == 4
    assert loaded("node.id=5").broker_id == 5
    assert loaded("node.id=5", "broker.id=5").get(BROKER_ID) == 5
    with pytest.raises(SettingError, match=r"node\.id=5: must equal broker\.id, which is 4"):
        loaded("node.id=5", "broker.id=4")


def test_folders_come_from_either_name() -> None:
    assert loaded("log.dir=/one").log_directories == ("/one",)
    assert loaded("log.dir=/one", "log.dirs=/two, /three").log_directories == ("/two", "/three")
    assert loaded().get(LOG_DIRS) is None


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("log.retention.ms=0", "-1 or at least 1"),
        ("log.dirs=a,,b", "one or more folders"),
        ("num.partitions=0", "at least 1"),
        ("compression.type=brotli", "one of uncompressed, zstd"),
        ("log.cleanup.policy=compact,keep", "one or more of delete, compact"),
        ("log.cleaner.min.cleanable.ratio=1.5", "from 0 to 1"),
        ("auto.create.topics.enable=maybe", "true or false"),
        ("max.connections.per.ip.overrides=localhost:5", "ADDRESS:NUMBER"),
        ("compression.gzip.level=0", "-1 or from 1 to 9"),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_allowed(override: str, complaint: str) -> None:
    with pytest.raises(SettingError, match=complaint):
        loaded(override)


def test_values_fine_alone_may_be_wrong_together() -> None:
    with pytest.raises(SettingError, match=r"must be at most log\.cleaner\.max"):
        loaded("log.cleaner.min.compaction.lag.ms=5", "log.cleaner.max.compaction.lag.ms=4")
    with pytest.raises(SettingError, match=r"must be -1 or at least socket\.request\.max\.bytes, 1000"):
        loaded("queued.max.request.bytes=999", "socket.request.max.bytes=1000")
    loaded("queued.max.request.bytes=1000", "socket.request.max.bytes=1000")


@pytest.mark.parametrize(
    ("listeners", "complaint"),
    [
        ("SSL://:9093", "is SSL; only PLAINTEXT is served yet"),
        ("PLAINTEXT://:9092,SASL_PLAINTEXT://:9093", "is SASL_PLAINTEXT; only PLAINTEXT is served yet"),
        ("OUTSIDE://:9092", "has no protocol in listener.security.protocol.map"),
    ],
)
def test_only_plain_listeners_are_served_yet(listeners: str, complaint: str) -> None:
    with pytest.raises(SettingError, match=complaint):
        loaded(f"listeners={listeners}")


def test_a_listener_may_have_any_name_that_stands_for_plaintext() -> None:
    pairs = "listener.security.protocol.map=OUTSIDE:PLAINTEXT,INSIDE:SSL"
    assert loaded("listeners=OUTSIDE://:9092", pairs).get(LISTENERS) == ("OUTSIDE://:9092",)
    with pytest.raises(SettingError, match=r"listeners=INSIDE://:9093: is SSL; only PLAINTEXT is served yet"):
        loaded("listeners=OUTSIDE://:9092,INSIDE://:9093", pairs)


def test_an_address_may_have_a_limit_of_its_own() -> None:
    config = loaded("max.connections.per.ip=7", "max.connections.per.ip.overrides=10.0.0.1:2,[0:0::1]:3")
    assert [config.connections_max_from(address) for address in ("10.0.0.1", "::1", "10.0.0.2")] == [2, 3, 7]


def test_listeners_are_checked_where_they_are_set() -> None:
    assert loaded("listeners=PLAINTEXT://:0").get(LISTENERS) == ("PLAINTEXT://:0",)
    for text in ("localhost:9092", "A://h:1,A://h:2", "A://h:1,B://h:1", "A://h:70000", ""):
        with pytest.raises(SettingError, match="NAME://host:port"):
            loaded(f"listeners={text}")


@pytest.mark.parametrize(
    "overrides",
    [
        ("group.min.session.timeout.ms=7", "group.max.session.timeout.ms=6"),
        ("group.consumer.session.timeout.ms=44999",),
        ("group.consumer.session.timeout.ms=60001",),
        ("group.consumer.heartbeat.interval.ms=4999",),
        ("group.consumer.heartbeat.interval.ms=15001",),
        ("group.consumer.heartbeat.interval.ms=45001", "group.consumer.max.heartbeat.interval.ms=60000"),
        ("group.coordinator.rebalance.protocols=consumer",),
        ("group.coordinator.rebalance.protocols=classic,streams",),
    ],
)
def test_group_settings_that_contradict_each_other_are_refused(overrides: tuple[str, ...]) -> None:
    with pytest.raises(SettingError):
        loaded(*overrides)
