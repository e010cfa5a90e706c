"""What DescribeConfigs tells of a setting, computed from the tables."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from millstream.config.broker import BROKER_SETTINGS, BrokerConfig
from millstream.config.setting import Setting
from millstream.config.sources import Source
from millstream.config.topic import TOPIC_SETTINGS, inherited


class Synonym(NamedTuple):
    """A value that a setting has or would have were the stronger ones not there."""

    name: str
    value: str | None
    source: Source


class Description(NamedTuple):
    """A setting with its value in force; a sensitive one's value is None."""

    name: str
    value: str | None
    source: Source
    is_read_only: bool
    is_sensitive: bool
    kind: int
    doc: str
    synonyms: list[Synonym]

    @property
    def is_default(self) -> bool:
        return self.source is Source.DEFAULT


def describe_broker(config: BrokerConfig) -> list[Description]:
    """Every setting of a broker, by name."""
    return [
        _description(setting, config.get(setting), _synonyms(config, setting), is_read_only=not setting.dynamic)
        for setting in BROKER_SETTINGS.values()
    ]


def describe_cluster(config: BrokerConfig) -> list[Description]:
    """What was set for all brokers at once, whatever this one has of its own."""
    shared = config.with_changes(dynamic={})
    return [
        each._replace(synonyms=[found for found in each.synonyms if found.source is Source.DYNAMIC_DEFAULT_BROKER])
        for each in describe_broker(shared)
        if each.name in shared.dynamic_default
    ]


def describe_topic(config: BrokerConfig, overrides: Mapping[str, str]) -> list[Description]:
    """Every setting of a topic with these of its own, on a broker of this configuration, by name."""
    found = []
    for name, setting in TOPIC_SETTINGS.items():
        synonyms = _synonyms(config, setting.fallbacks[0].setting) if setting.fallbacks else []
        value = inherited(config, setting)
        if name in overrides:
            value = setting.parse(overrides[name])
            synonyms.insert(0, Synonym(name, setting.text(value), Source.TOPIC))
        found.append(_description(setting, value, synonyms, is_read_only=False))
    return found


def _synonyms(config: BrokerConfig, setting: Setting[Any]) -> list[Synonym]:
    """What every layer says of a broker's setting and its fallbacks: the strongest layer first."""
    found = [
        Synonym(fallback.setting.name, None if setting.is_sensitive else text, source)
        for fallback in setting.chain()
        for source, text in config.given(fallback.setting)
    ]
    return sorted(found, key=lambda synonym: synonym.source)


def _description(setting: Setting[Any], value: object, synonyms: list[Synonym], is_read_only: bool) -> Description:
    return Description(
        name=setting.name,
        value=None if value is None or setting.is_sensitive else setting.text(value),
        source=synonyms[0].source if synonyms else Source.DEFAULT,
        is_read_only=is_read_only,
        is_sensitive=setting.is_sensitive,
        kind=setting.kind.code,
        doc=setting.doc,
        synonyms=synonyms,
    )
