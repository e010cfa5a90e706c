"""The cluster as the controller last described it: what Metadata and its kin answer from."""

from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field
from typing import NamedTuple

from millstream.model.errors import ErrorCode
from millstream.model.ids import INTERNAL_TOPICS, ZERO_UUID, Uuid
from millstream.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from millstream.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)

#: The type of an order that tells everything: what it does not name is no more.
FULL = 2
#: The leader that UpdateMetadata names for a partition whose topic is being deleted.
LEADER_DURING_DELETE = -2


class Endpoint(NamedTuple):
    """Where a broker is found."""

    broker_id: int
    host: str
    port: int
    rack: str | None


@dataclass(slots=True)
class Topic:
    """A topic's id, and its partitions by index."""

    name: str
    topic_id: Uuid
    partitions: dict[int, UpdateMetadataPartitionState] = field(default_factory=dict)

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


class ClusterView:
    """Brokers, controller and topics; changes only by UpdateMetadata, and never by a stale one."""

    def __init__(self) -> None:
        self.cluster_id = ""
        self.controller_id = -1
        #: Each live broker's endpoints, by listener.
        self.brokers: dict[int, dict[str, Endpoint]] = {}
        self.topics: dict[str, Topic] = {}
        self._names: dict[Uuid, str] = {}
        self._controller_epoch = 0
        #: This broker's registration that the controller knew of when it described the cluster.
        self._broker_epoch = -1

    def update(self, told: UpdateMetadataRequest) -> UpdateMetadataResponse:
        """Take over what the controller says of brokers and partitions; topics it does not name stay, unless it
        says everything.
        """
        if told.controller_epoch < self._controller_epoch:
            return UpdateMetadataResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
        self._controller_epoch = told.controller_epoch
        self._broker_epoch = max(self._broker_epoch, told.broker_epoch)
        self.controller_id = told.controller_id
        self.brokers = {
            broker.id: {
                endpoint.listener: Endpoint(broker.id, endpoint.host, endpoint.port, broker.rack)
                for endpoint in broker.endpoints
            }
            for broker in told.live_brokers
        }
        if told.type == FULL:
            self.topics.clear()
            self._names.clear()
        for state in told.topic_states:
            self._update_topic(state.topic_name, state.topic_id, state.partition_states)
        return UpdateMetadataResponse()

    def hear(self, order: LeaderAndIsrRequest) -> None:
        """Take over the leaders that an order names, ahead of the news: whoever was refused here asks here for them."""
        for told in order.topic_states:
            topic = self.topics.get(told.topic_name)
            if topic is None or topic.topic_id != told.topic_id:
                continue
            for role in told.partition_states:
                known = topic.partitions.get(role.partition_index)
                if known is not None and known.leader_epoch < role.leader_epoch:
                    state = topic.partitions[role.partition_index] = copy(known)
                    state.leader, state.leader_epoch, state.isr = role.leader, role.leader_epoch, role.isr

    def is_as_new_as(self, controller_epoch: int, broker_epoch: int) -> bool:
        """Whether it came from that controller, or a later one, and after this broker had registered under that epoch.

        Both tell of everything once: what such a view does not show, there is not any more.
        """
        return self._controller_epoch >= controller_epoch and self._broker_epoch >= broker_epoch

    def endpoints(self, listener: str) -> list[Endpoint]:
        """Where a client that came by ``listener`` finds the brokers: by the same one, where they have it."""
        return [found[listener] for found in self.brokers.values() if listener in found]

    def racks(self) -> dict[int, str | None]:
        """The rack of each live broker."""
        return {broker_id: next(iter(found.values())).rack for broker_id, found in self.brokers.items() if found}

    def endpoints_of(self, broker_ids: Iterable[int], listener: str) -> list[Endpoint]:
        """Where these brokers are found by ``listener``, those that are."""
        found = (self.brokers.get(broker_id, {}).get(listener) for broker_id in sorted(set(broker_ids)))
        return [endpoint for endpoint in found if endpoint is not None]

    def leadership(self, name: str, index: int) -> UpdateMetadataPartitionState | None:
        """What is known of a partition, its leader and that one's epoch before all."""
        topic = self.topics.get(name)
        return None if topic is None else topic.partitions.get(index)

    def name_of(self, topic_id: Uuid) -> str | None:
        """The topic of that id, if there is one."""
        return self._names.get(topic_id)

    def shapes(self, names: Iterable[str]) -> dict[str, tuple[Uuid, int]]:
        """The id and the number of partitions of each of these topics that exists."""
        return {
            name: (topic.topic_id, len(topic.partitions))
            for name in names
            if (topic := self.topics.get(name)) is not None
        }

    def _update_topic(self, name: str, topic_id: Uuid, states: list[UpdateMetadataPartitionState]) -> None:
        topic = self.topics.get(name)
        if topic is None or topic.topic_id != topic_id:
            topic = self.topics[name] = Topic(name, topic_id)
        for state in states:
            if state.leader == LEADER_DURING_DELETE:
                topic.partitions.pop(state.partition_index, None)
            else:
                topic.partitions[state.partition_index] = state
        if topic.partitions:
            if topic_id != ZERO_UUID:
                self._names[topic_id] = name
        else:
            del self.topics[name]
            self._names.pop(topic_id, None)
