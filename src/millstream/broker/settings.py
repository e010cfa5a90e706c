"""The settings in force on this broker, and how they change while it runs."""

from collections.abc import Callable, Iterable, Mapping

from millstream.config import log
from millstream.config.broker import BrokerConfig
from millstream.config.changes import check_broker_overrides
from millstream.config.topic import MIN_INSYNC_REPLICAS, TopicConfig, check_topic_overrides
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.registry.configs import BrokerConfigs, TopicConfigs, change_overrides
from millstream.registry.nodes import BROKERS, DEFAULT_ENTITY, TOPICS
from millstream.registry.tree import NoNode, Registry

#: What replaces a set of overrides, given those there are.
Replace = Callable[[dict[str, str]], Mapping[str, str]]


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
        self._is_started = False

    async def start(self) -> None:
        """Read what was changed before, then follow."""
        await self._topics.start()
        await self._brokers.start()
        self._is_started = True

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

    def topic_overrides(self, topic: str) -> Mapping[str, str]:
        """What was set for this topic alone."""
        return self._topics.get(topic)

    def min_in_sync(self, topic: str) -> int | None:
        """The topic's own min.insync.replicas, if it has one."""
        own = MIN_INSYNC_REPLICAS.name in self._topics.get(topic)
        return self.topic_config(topic).min_insync_replicas if own else None

    def min_in_sync_told(self) -> int | None:
        """The least min.insync.replicas that any broker was told while it ran."""
        name = log.MIN_INSYNC_REPLICAS.name
        told = [overrides[name] for overrides in self._brokers.everything() if name in overrides]
        return min(map(log.MIN_INSYNC_REPLICAS.parse, told), default=None)

    async def load_topics(self, topics: list[str]) -> None:
        """Topics may just have come into being: read their values now, before their partitions are made."""
        await self._topics.load(topics)

    async def refresh(self) -> None:
        """Catch up with every change that was made before the call."""
        await self._topics.refresh()
        await self._brokers.refresh()

    def forget_topics(self, topics: Iterable[str]) -> None:
        """Topics are gone: what was known of them goes too."""
        for topic in topics:
            self._topics.forget(topic)
            self._resolved.pop(topic, None)

    # Changing.

    async def change_topic(self, topic: str, change: Replace, validate_only: bool) -> None:
        """Replace a topic's overrides by what ``change`` makes of them; INVALID_CONFIG where they cannot be."""

        def checked(before: dict[str, str]) -> Mapping[str, str]:
            after = change(before)
            check_topic_overrides(after)
            return after

        if validate_only:
            checked(dict(self._topics.get(topic)))
            return
        try:
            await change_overrides(self._registry, TOPICS, topic, checked)
        except NoNode as error:
            raise ProtocolError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic} was deleted meanwhile") from error
        await self._topics.refresh()

    async def change_broker(self, name: str, change: Replace, validate_only: bool) -> None:
        """The same for a broker by its id, or for all of them under the empty name."""
        entity = name or DEFAULT_ENTITY

        def checked(before: dict[str, str]) -> Mapping[str, str]:
            after = change(before)
            check_broker_overrides(after, self.config)
            return after

        if validate_only:
            checked(dict(self._brokers.get(entity)))
            return
        await change_overrides(self._registry, BROKERS, entity, checked)
        await self._brokers.refresh()

    # Following.

    def _topic_changed(self, topic: str) -> None:
        self._resolved.pop(topic, None)
        if self._is_started:
            self._on_topic_changed(topic)

    def _broker_changed(self, name: str) -> None:
        own = str(self.config.broker_id)
        if name not in (own, DEFAULT_ENTITY):
            return
        self.config = self.config.with_changes(
            dynamic=self._brokers.get(own), dynamic_default=self._brokers.get(DEFAULT_ENTITY)
        )
        self._resolved.clear()
        if self._is_started:
            self._on_broker_changed()

    def _default_topic_config(self) -> TopicConfig:
        found = self._resolved.get("")
        if found is None:
            found = self._resolved[""] = TopicConfig.resolve(self.config)
        return found
