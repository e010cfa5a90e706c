"""A controller's orders, before the broker has an epoch to compare them with."""

import asyncio
from typing import Any

import pytest

from millstream.broker.orders import Orders
from millstream.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from millstream.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from millstream.protocol.messages.update_metadata import UpdateMetadataRequest
from tests.simulation.loop import run


class Ground:
    """A broker that notes which orders reach its replicas."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.replicas = self.settings = self.cluster = self

    def follow(self, order: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        self.heard.append("follow")
        return LeaderAndIsrResponse()

    def stop(self, order: StopReplicaRequest) -> StopReplicaResponse:
        self.heard.append("stop")
        return StopReplicaResponse()

    def staleness(self, *epochs: int) -> int:
        self.heard.append("update_view")
        return 1

    async def load_topics(self, topics: list[str]) -> None:
        pass

    def hear(self, order: LeaderAndIsrRequest) -> None:
        pass


@pytest.mark.parametrize("order", ["follow", "stop", "update_view"])
def test_an_order_waits_until_this_life_of_the_broker_is_registered(order: str) -> None:
    """It may be meant for the life before, which may have had more than is left."""

    async def scenario() -> None:
        ground: Any = Ground()
        orders = Orders(ground)
        asked = {
            "follow": orders.follow(LeaderAndIsrRequest()),
            "stop": orders.stop_replicas(StopReplicaRequest()),
            "update_view": orders.update_view(UpdateMetadataRequest()),
        }
        given = asyncio.ensure_future(asked.pop(order))
        for other in asked.values():
            other.close()
        await asyncio.sleep(60)
        assert ground.heard == []
        orders.is_registered.set()
        await given
        assert ground.heard == [order]

    run(scenario())
