"""What groups obey is what the broker was told."""

from millstream.config.broker import BrokerConfig
from millstream.coordination.groups.settings import GroupSettings, group_settings


def test_a_broker_of_its_own_has_kafkas_values_but_for_the_first_delay() -> None:
    assert group_settings(BrokerConfig()) == GroupSettings(group_initial_rebalance_delay_ms=300)


def test_a_brokers_own_values_are_taken() -> None:
    config = BrokerConfig.load(
        overrides=[
            "offsets.retention.minutes=2",
            "group.coordinator.rebalance.protocols=classic",
            "group.consumer.assignors=range",
        ]
    )
    settings = group_settings(config)
    assert settings.offsets_retention_ms == 120_000
    assert not settings.has_consumer_protocol
    assert settings.group_consumer_assignors == ("range",)
