"""The coordinators on this broker, and the internal topics that keep what they know."""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from millstream.broker.cluster_view import ClusterView, Endpoint, Topic
from millstream.broker.forwarding import make_topic
from millstream.broker.transactions import transaction_machine
from millstream.config import groups as group_config
from millstream.config import transactions as transaction_config
from millstream.config.broker import BrokerConfig
from millstream.config.setting import Setting
from millstream.coordination.coordinator import Coordinator
from millstream.coordination.decision import Machine
from millstream.coordination.driver import Stage
from millstream.coordination.groups.group import TopicsChanged, TopicView
from millstream.coordination.groups.machine import GroupMachine
from millstream.coordination.groups.settings import group_settings
from millstream.coordination.loading import Codec
from millstream.coordination.schemas import transaction_state, tuned
from millstream.model.compression import NONE
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import CONSUMER_OFFSETS, TRANSACTION_STATE, Uuid
from millstream.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from millstream.replication.partition import Partition

if TYPE_CHECKING:
    from millstream.broker.broker import Broker

logger = logging.getLogger(__name__)

MIN_IN_SYNC = "min.insync.replicas"


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """How an internal topic is made, as the broker's settings say when it is first needed."""

    name: str
    partitions: Setting[int]
    replicas: Setting[int]
    configs: Callable[[BrokerConfig], dict[str, str]]

    def asked(self, config: BrokerConfig, broker_count: int) -> CreatableTopic:
        """The request for it; for no more replicas than there are brokers, unless someone has said how many."""
        replicas = config.get(self.replicas)
        if not config.is_given(self.replicas):
            replicas = min(replicas, max(broker_count, 1))
        configs = self.configs(config)
        if MIN_IN_SYNC in configs:
            configs[MIN_IN_SYNC] = str(min(int(configs[MIN_IN_SYNC]), replicas))
        return CreatableTopic(
            name=self.name,
            num_partitions=config.get(self.partitions),
            replication_factor=replicas,
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
        )


GROUPS = InternalTopic(
    CONSUMER_OFFSETS,
    group_config.OFFSETS_TOPIC_NUM_PARTITIONS,
    group_config.OFFSETS_TOPIC_REPLICATION_FACTOR,
    lambda config: {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(config.get(group_config.OFFSETS_TOPIC_SEGMENT_BYTES)),
    },
)
TRANSACTIONS = InternalTopic(
    TRANSACTION_STATE,
    transaction_config.TRANSACTION_STATE_LOG_NUM_PARTITIONS,
    transaction_config.TRANSACTION_STATE_LOG_REPLICATION_FACTOR,
    lambda config: {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        MIN_IN_SYNC: str(config.get(transaction_config.TRANSACTION_STATE_LOG_MIN_ISR)),
        "segment.bytes": str(config.get(transaction_config.TRANSACTION_STATE_LOG_SEGMENT_BYTES)),
        "unclean.leader.election.enable": "false",
    },
)


class ClusterTopics:
    """The cluster's topics as the group machines ask for them."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster

    def by_name(self, name: str) -> TopicView | None:
        topic = self._cluster.topics.get(name)
        return None if topic is None else _view(topic)

    def by_id(self, topic_id: Uuid) -> TopicView | None:
        name = self._cluster.name_of(topic_id)
        return None if name is None else self.by_name(name)

    def names(self) -> Iterator[str]:
        return iter(list(self._cluster.topics))

    def racks(self, topic: TopicView, partition: int) -> frozenset[str]:
        """Where the partition's replicas stand; empty when brokers have no rack."""
        known = self._cluster.topics.get(topic.name)
        state = None if known is None else known.partitions.get(partition)
        if state is None:
            return frozenset()
        endpoints = (next(iter(self._cluster.brokers.get(replica, {}).values()), None) for replica in state.replicas)
        return frozenset(each.rack for each in endpoints if each is not None and each.rack is not None)


def _view(topic: Topic) -> TopicView:
    return TopicView(topic.topic_id, topic.name, len(topic.partitions))


class Coordinators:
    """Who coordinates groups and transactions here; made when the broker starts, told of roles and topics."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._topics = ClusterTopics(broker.cluster)
        self.groups = Coordinator(
            CONSUMER_OFFSETS,
            self._stage(
                self._group_machine,
                Codec(tuned.encode_record, tuned.decode_record),
                group_config.OFFSETS_LOAD_BUFFER_SIZE,
                lambda: broker.settings.config.get(group_config.OFFSETS_TOPIC_COMPRESSION_CODEC),
            ),
            lambda: self._partition_count(CONSUMER_OFFSETS),
        )
        self.transactions = Coordinator(
            TRANSACTION_STATE,
            self._stage(
                partial(transaction_machine, broker),
                Codec(transaction_state.encode_record, transaction_state.decode_record),
                transaction_config.TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE,
            ),
            lambda: self._partition_count(TRANSACTION_STATE),
        )
        self._by_topic = {each.topic: each for each in (self.groups, self.transactions)}

    # What the broker tells.

    def role_changed(self, partition: Partition) -> None:
        """The controller gave this broker another part in a partition."""
        coordinator = self._by_topic.get(partition.topic_partition.topic)
        if coordinator is not None:
            coordinator.role_changed(partition)

    def topics_changed(self, topics: Iterable[str]) -> None:
        """Topics were made, widened or deleted."""
        changed = frozenset(topics)
        if changed:
            self.groups.tell(TopicsChanged(changed))

    async def close(self) -> None:
        """Coordinate no more."""
        for coordinator in self._by_topic.values():
            coordinator.close()

    # Which broker coordinates.

    async def find(self, topic: InternalTopic, key: str, listener: str) -> Endpoint:
        """The broker that coordinates ``key``, for a client that came by ``listener``; makes the topic at first."""
        view = self._broker.cluster
        await self._broker.detection.settle()
        await self.ensure(topic)
        if topic.name not in view.topics:
            raise ProtocolError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic.name} is not known here yet")
        index = self._by_topic[topic.name].index_of(key)
        state = view.topics[topic.name].partitions.get(index)
        endpoint = None if state is None else view.brokers.get(state.leader, {}).get(listener)
        if endpoint is None:
            raise ProtocolError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic.name}-{index} has no leader")
        return endpoint

    async def ensure(self, topic: InternalTopic) -> None:
        """Make the topic if there is none yet."""
        if topic.name not in self._broker.cluster.topics:
            await self._make(topic)

    async def _make(self, topic: InternalTopic) -> None:
        broker = self._broker
        made = await make_topic(broker, topic.asked(broker.settings.config, len(broker.cluster.brokers)))
        if made.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise ProtocolError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{topic.name} cannot be made: {made.error_message}"
            )

    # What shards are made of.

    def _partition_count(self, topic: str) -> int | None:
        known = self._broker.cluster.topics.get(topic)
        return None if known is None else len(known.partitions)

    def _stage(
        self,
        make_machine: Callable[[int, int], Machine],
        codec: Codec,
        load_buffer: Setting[int],
        compression: Callable[[], int] = lambda: NONE,
    ) -> Stage:
        broker = self._broker
        return Stage(
            make_machine=make_machine,
            codec=codec,
            perform=broker.markers.perform,
            clock=broker.clock,
            workers=broker.workers,
            purgatory=broker.purgatory,
            compression=compression,
            load_bytes=lambda: broker.settings.config.get(load_buffer),
            write_timeout_ms=lambda: broker.settings.config.get(group_config.OFFSETS_COMMIT_TIMEOUT_MS),
        )

    def _group_machine(self, index: int, epoch: int) -> Machine:
        broker = self._broker
        return GroupMachine(
            settings=lambda: group_settings(broker.settings.config),
            topics=self._topics,
            new_id=lambda: str(UUID(int=broker.random.getrandbits(128), version=4)),
            report=logger.warning,
        )
