"""The controller's orders, carried out: roles taken, replicas stopped, the view of the cluster renewed.

An order may name thousands of partitions, each with files to make or to rename, so it is carried out a share at a time:
between two of them everybody else is served.
"""

import asyncio
from collections.abc import Iterator
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

from millstream.broker.cluster_view import FULL
from millstream.broker.routes import Router
from millstream.broker.strays import set_aside_strays
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from millstream.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    StopReplicaTopicState,
)
from millstream.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from millstream.registry.tree import SessionExpired

if TYPE_CHECKING:
    from millstream.broker.broker import Broker

#: How many partitions are seen to before others have their turn.
PARTITIONS_AT_ONCE = 20

Order = TypeVar("Order", LeaderAndIsrRequest, StopReplicaRequest)


class Orders:
    """What the controller has a broker do, whether it comes by wire or, from the broker's own controller, by a call."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        #: Set once this life of the broker has an epoch.  Until then orders wait, for they may be meant for the life
        #: before, which the registry still shows and which may have had more than is left.
        self.is_registered = asyncio.Event()
        #: By its kind, the controller's and this broker's epoch of the latest order that told everything.
        self._told_fully: dict[type[LeaderAndIsrRequest | UpdateMetadataRequest], tuple[int, int]] = {}

    async def follow(self, order: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        """Lead or follow each partition; one that tells everything ends the part in all that it does not name."""
        broker = self._broker
        await self.is_registered.wait()
        await self._load([topic.topic_name for topic in order.topic_states])
        answer = LeaderAndIsrResponse()
        for share in _shares(order):
            part = broker.replicas.follow(share)
            if part.error_code:
                return part
            answer.topics += part.topics
            broker.cluster.hear(share)
            await asyncio.sleep(0)
        if order.type == FULL and self._is_first(order):
            broker.replicas.stop(self._unnamed(order))  # At once: no files are touched.
        return answer

    def _is_first(self, order: LeaderAndIsrRequest | UpdateMetadataRequest) -> bool:
        """Whether ``order`` is the first of its kind to tell this life of the broker everything, in this term.

        One that comes again knows nothing of what was told since, and ends nobody's part.
        """
        epochs, latest = (order.controller_epoch, order.broker_epoch), self._told_fully.get(type(order), (-1, -1))
        self._told_fully[type(order)] = max(epochs, latest)
        return epochs > latest

    def _unnamed(self, order: LeaderAndIsrRequest) -> StopReplicaRequest:
        """The order to give up every partition that ``order`` does not name; their logs stay."""
        named = {
            (topic.topic_name, state.partition_index)
            for topic in order.topic_states
            for state in topic.partition_states
        }
        topics: dict[str, StopReplicaTopicState] = {}
        for partition in self._broker.replicas:
            name, index = partition.topic_partition
            if (name, index) not in named:
                topic = topics.setdefault(name, StopReplicaTopicState(topic_name=name))
                topic.partition_states.append(StopReplicaPartitionState(partition_index=index))
        return StopReplicaRequest(
            controller_id=order.controller_id,
            controller_epoch=order.controller_epoch,
            broker_epoch=order.broker_epoch,
            topic_states=list(topics.values()),
        )

    async def stop_replicas(self, order: StopReplicaRequest) -> StopReplicaResponse:
        """Give up each partition, and its log where that is ordered too."""
        await self.is_registered.wait()
        answer = StopReplicaResponse()
        for share in _shares(order):
            part = self._broker.replicas.stop(share)
            if part.error_code:
                return part
            answer.partition_errors += part.partition_errors
            await asyncio.sleep(0)
        return answer

    async def _load(self, topics: list[str]) -> None:
        """Know the topics' settings; an order is stale where the session ends meanwhile, for all is told anew then."""
        try:
            await self._broker.settings.load_topics(topics)
        except SessionExpired as error:
            raise ProtocolError(ErrorCode.STALE_BROKER_EPOCH, str(error)) from error

    async def update_view(self, told: UpdateMetadataRequest) -> UpdateMetadataResponse:
        """Take over what the controller says of the cluster."""
        broker = self._broker
        await self.is_registered.wait()
        if (stale := broker.replicas.staleness(told.controller_epoch, told.broker_epoch)) is not None:
            return UpdateMetadataResponse(error_code=stale)
        known = broker.cluster.topics
        fresh = [
            topic.topic_name
            for topic in told.topic_states
            if topic.topic_name not in known or known[topic.topic_name].topic_id != topic.topic_id
        ]
        if fresh:  # Their settings came with them, unannounced, and are asked for here whether or not a replica is.
            await self._load(fresh)
        if told.type == FULL and not self._is_first(told):
            return UpdateMetadataResponse()
        named = {topic.topic_name for topic in told.topic_states}
        if told.type == FULL:
            named |= broker.cluster.topics.keys()
        before, brokers = broker.cluster.shapes(named), broker.cluster.brokers
        answer = broker.cluster.update(told)
        if answer.error_code:
            return answer
        live = broker.cluster.brokers
        broker.detection.gone({each: endpoints for each, endpoints in brokers.items() if each not in live})
        if told.type == FULL:
            set_aside_strays(broker, told)
        after = broker.cluster.shapes(named)
        broker.settings.forget_topics(named - after.keys())
        broker.coordinators.topics_changed(name for name in named if before.get(name) != after.get(name))
        broker.view_changed()
        return answer


def _shares(order: Order) -> Iterator[Order]:
    """The same order for a few partitions at a time; for none, once, as it may be stale all the same."""
    share = copy(order)
    share.topic_states = []
    count = 0
    for topic in order.topic_states:
        for at in range(0, len(topic.partition_states), PARTITIONS_AT_ONCE):
            some: Any = copy(topic)
            some.partition_states = topic.partition_states[at : at + PARTITIONS_AT_ONCE]
            share.topic_states.append(some)
            count += len(some.partition_states)
            if count >= PARTITIONS_AT_ONCE:
                yield share
                share = copy(order)
                share.topic_states = []
                count = 0
    if share.topic_states or not order.topic_states:
        yield share


class _OwnConnection:
    """Where the broker's requests to itself come from."""

    is_broker = True


class OwnCall:
    """A request of the broker to itself: as from another broker, at the newest version."""

    connection = _OwnConnection()

    def __init__(self, version: int) -> None:
        self.version = version


async def answer_own(broker: "Broker", router: Router, request: Any) -> Any:
    """What this broker's handlers answer to its own request, without a wire between."""
    route = router.route_of(type(request))
    try:
        return await route.handler(broker, request, OwnCall(route.versions[1]))
    except ProtocolError as error:
        refusal = route.refusal(error.code, error.detail or None)
        if refusal is None:
            raise
        return refusal
