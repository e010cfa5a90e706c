"""Topics kept in step: one that is refused holds up no other."""

import asyncio

import pytest

from millstream.client.cluster import Cluster
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.pipelines.mirror.definition import Mirror
from millstream.pipelines.mirror.topics import TopicsInStep
from millstream.protocol.messages.metadata import MetadataRequest
from tests.unit.client.scripted_broker import ScriptedBroker, metadata_of

FLOW = Mirror("clusters=A,B\nA.bootstrap.servers=h:1\nB.bootstrap.servers=h:2\nA->B.enabled=true\n", "f").flows[0]


class Choosy(TopicsInStep):
    """At a target that refuses settings of one topic."""

    def __init__(self, source: Cluster, target: Cluster) -> None:
        super().__init__(FLOW, source, target)
        self.synced: list[str] = []

    async def _sync(self, name: str, remote: str) -> None:
        if name == "bad":
            raise ProtocolError(ErrorCode.INVALID_CONFIG, "of another make")
        self.synced.append(remote)


def test_a_setting_that_is_refused_is_told_behind_those_of_all_other_topics() -> None:
    async def scenario() -> list[str]:
        async with ScriptedBroker() as broker:
            leaders = {"bad": [1], "good": [1], "A.bad": [1], "A.good": [1]}
            broker.handlers[MetadataRequest.API_KEY] = metadata_of({1: broker.address}, leaders)
            async with Cluster([broker.address]) as source, Cluster([broker.address]) as target:
                topics = Choosy(source, target)
                with pytest.raises(ProtocolError, match=r"INVALID_CONFIG: topic A\.bad: .*of another make"):
                    await topics.sync_configs()
                return topics.synced

    assert asyncio.run(scenario()) == ["A.good"]
