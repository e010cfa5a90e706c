"""The settings in force on this broker, and how they change while it runs."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from millstream.config.broker import BROKER_SETTINGS, BrokerConfig
from millstream.config.setting import Setting, SettingError, unknown
from millstream.config.sources import Source
from millstream.config.topic import TOPIC_SETTINGS, TopicConfig, check_topic_overrides
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.registry.configs import BrokerConfigs, TopicConfigs, change_overrides
from millstream.registry.nodes import BROKERS, DEFAULT_ENTITY, TOPICS
from millstream.registry.tree import Registry

Overrides = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Entry:
    """One setting as DescribeConfigs tells it."""

    setting: Setting[Any]
    value: str | None
    source: Source
    is_read_only: bool
    #: (name, value, source) of every layer that speaks of it, the one in force first.
    synonyms: tuple[tuple[str, str | None, Source], ...]

    @property
    def name(self) -> str:
        return self.setting.name

    @property
    def is_sensitive(self) -> bool:
        return self.setting.is_sensitive


class LiveSettings:
    """What the broker was started with, and over it what was changed through the registry since."""

    def __init__(
        self,
        config: BrokerConfig,
        registry: Registry,
        on_topic_changed: Callable[[str], None],
        on_broker_changed: Callable[[], None],
    ) -> None:
        self.config = config
        self._registry = registry
        self._on_topic_changed = on_topic_changed
        self._on_broker_changed = on_broker_changed
        self._topics = TopicConfigs(registry, self._topic_changed)
        self._brokers = BrokerConfigs(registry, self._broker_changed)
        self._resolved: dict[str, TopicConfig] = {}

    async def start(self) -> None:
        """Read what was changed before, then follow."""
        await self._topics.start()
        await self._brokers.start()

    async def close(self) -> None:
        """Follow no longer."""
        await self._topics.close()
        await self._brokers.close()

    # Reading.

    def topic_config(self, topic: str) -> TopicConfig:
        """The topic's values in force."""
        overrides = self._topics.get(topic)
        if not overrides:
            return self._default_topic_config()
        found = self._resolved.get(topic)
        if found is None:
            found = self._resolved[topic] = TopicConfig.resolve(self.config, overrides)
        return found

    def topic_overrides(self, topic: str) -> Overrides:
        """What was set for this topic alone."""
        return self._topics.get(topic)

    async def load_topics(self, topics: list[str]) -> None:
        """Topics just came into being: read their values now, before their partitions are made."""
        await self._topics.load(topics)
        for topic in topics:
            self._resolved.pop(topic, None)

    def describe_topic(self, overrides: Overrides) -> Iterator[Entry]:
        """Every setting of a topic that has these overrides."""
        for setting in TOPIC_SETTINGS.values():
            layers: list[tuple[str, str, Source]] = []
            if setting.name in overrides:
                layers.append((setting.name, overrides[setting.name], Source.TOPIC))
            for fallback in setting.fallbacks:
                layers += [(fallback.setting.name, text, source) for source, text in self.config.given(fallback.setting)]
            inherited = setting.text(self.config.get(setting.fallbacks[0].setting))
            value = overrides.get(setting.name, inherited)
            yield _entry(setting, value, layers, is_read_only=False)

    def describe_broker(self) -> Iterator[Entry]:
        """Every setting of this broker."""
        for setting in BROKER_SETTINGS.values():
            layers = [
                (each.setting.name, text, source)
                for each in setting.chain()
                for source, text in self.config.given(each.setting)
            ]
            value = self.config.get(setting)
            text = None if value is None else setting.text(value)
            yield _entry(setting, text, layers, is_read_only=not setting.dynamic)

    def describe_cluster_default(self) -> Iterator[Entry]:
        """What was changed for all brokers."""
        for name, text in self.config.dynamic_default.items():
            setting = BROKER_SETTINGS[name]
            yield _entry(setting, text, [(name, text, Source.DYNAMIC_DEFAULT_BROKER)], is_read_only=False)

    # Changing.

    async def change_topic(
        self, topic: str, change: Callable[[dict[str, str]], Mapping[str, str]], validate_only: bool
    ) -> None:
        """Replace a topic's overrides by what ``change`` makes of them; INVALID_CONFIG where they cannot be."""

        def checked(before: dict[str, str]) -> Mapping[str, str]:
            after = change(before)
            check_topic_overrides(after)
            return after

        if validate_only:
            checked(dict(self._topics.get(topic)))
            return
        await change_overrides(self._registry, TOPICS, topic, checked)
        await self._topics.refresh()

    async def change_broker(
        self, name: str, change: Callable[[dict[str, str]], Mapping[str, str]], validate_only: bool
    ) -> None:
        """The same for a broker by its id, or for all of them under the empty name."""
        entity = name or DEFAULT_ENTITY

        def checked(before: dict[str, str]) -> Mapping[str, str]:
            after = change(before)
            self._check_broker_overrides(after, is_default=not name)
            return after

        if validate_only:
            checked(dict(self._brokers.get(entity)))
            return
        await change_overrides(self._registry, BROKERS, entity, checked)
        await self._brokers.refresh()

    def _check_broker_overrides(self, overrides: Overrides, *, is_default: bool) -> None:
        try:
            for name in overrides:
                setting = BROKER_SETTINGS.get(name)
                if setting is None:
                    raise SettingError(unknown(name, BROKER_SETTINGS))
                if not setting.dynamic:
                    raise SettingError(f"{name} cannot be changed while the broker runs")
            if is_default:
                self.config.with_changes(dynamic_default=overrides)
            else:
                self.config.with_changes(dynamic=overrides)
        except SettingError as error:
            raise ProtocolError(ErrorCode.INVALID_CONFIG, str(error)) from error

    # Following.

    def _topic_changed(self, topic: str) -> None:
        self._resolved.pop(topic, None)
        self._on_topic_changed(topic)

    def _broker_changed(self, name: str) -> None:
        own = str(self.config.broker_id)
        if name not in (own, DEFAULT_ENTITY):
            return
        self.config = self.config.with_changes(
            dynamic=self._brokers.get(own), dynamic_default=self._brokers.get(DEFAULT_ENTITY)
        )
        self._resolved.clear()
        self._on_broker_changed()

    def _default_topic_config(self) -> TopicConfig:
        found = self._resolved.get("")
        if found is None:
            found = self._resolved[""] = TopicConfig.resolve(self.config)
        return found


def _entry(
    setting: Setting[Any], value: str | None, layers: list[tuple[str, str, Source]], *, is_read_only: bool
) -> Entry:
    if setting.is_sensitive:
        return Entry(setting, None, layers[0][2] if layers else Source.DEFAULT, is_read_only, ())
    source = min((layer[2] for layer in layers), default=Source.DEFAULT)
    ordered = tuple(sorted(layers, key=lambda layer: layer[2]))
    return Entry(setting, value, source, is_read_only, ordered)
