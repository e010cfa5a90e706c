"""The controller's orders, carried out: roles taken, replicas stopped, the view of the cluster renewed.

An order may name thousands of partitions, each with files to make or to rename, so it is carried out a share at a time:
between two of them everybody else is served.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from copy import copy
from typing import TYPE_CHECKING, Any, TypeVar

from millstream.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from millstream.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from millstream.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

if TYPE_CHECKING:
    from millstream.broker.broker import Broker

#: How many partitions are seen to before others have their turn.
PARTITIONS_AT_ONCE = 20

Order = TypeVar("Order", LeaderAndIsrRequest, StopReplicaRequest)


class Orders:
    """The controller's way to this broker, which is a call."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._carried_out: dict[type[Any], Callable[[Any], Awaitable[Any]]] = {
            LeaderAndIsrRequest: self._follow,
            UpdateMetadataRequest: self._update_view,
            StopReplicaRequest: self._stop_replicas,
        }

    async def send(self, broker_id: int, request: Any, *, timeout_ms: int | None = None) -> Any:
        """Deliver an order to the broker of that id."""
        assert broker_id == self._broker.id, "a cluster of one has no other broker"
        return await self._carried_out[type(request)](request)

    async def _follow(self, order: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        broker = self._broker
        await broker.settings.load_topics([topic.topic_name for topic in order.topic_states])
        answer = LeaderAndIsrResponse()
        for share in _shares(order):
            part = broker.replicas.follow(share)
            if part.error_code:
                return part
            answer.topics += part.topics
            await asyncio.sleep(0)
        return answer

    async def _stop_replicas(self, order: StopReplicaRequest) -> StopReplicaResponse:
        answer = StopReplicaResponse()
        for share in _shares(order):
            part = self._broker.replicas.stop(share)
            if part.error_code:
                return part
            answer.partition_errors += part.partition_errors
            await asyncio.sleep(0)
        return answer

    async def _update_view(self, told: UpdateMetadataRequest) -> UpdateMetadataResponse:
        broker = self._broker
        named = {topic.topic_name for topic in told.topic_states}
        before = broker.cluster.shapes(named)
        answer = broker.cluster.update(told)
        after = broker.cluster.shapes(named)
        broker.settings.forget_topics(named - after.keys())
        broker.coordinators.topics_changed(name for name in named if before.get(name) != after.get(name))
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
