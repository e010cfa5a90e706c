"""Groups followed: one that is refused holds up no other."""

import asyncio

import pytest

from millstream.client.cluster import Cluster
from millstream.client.coordinators import Coordinators
from millstream.client.groups import Committed
from millstream.client.wire import Address
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.pipelines.mirror import groups as module
from millstream.pipelines.mirror.definition import Mirror
from millstream.pipelines.mirror.groups import Groups
from millstream.pipelines.mirror.translation import Run, Translations

FLOW = Mirror("clusters=A,B\nA.bootstrap.servers=h:1\nB.bootstrap.servers=h:2\nA->B.enabled=true\n", "f").flows[0]
PLACE, REMOTE = TopicPartition("t", 0), TopicPartition("A.t", 0)


def test_a_group_that_is_refused_is_told_behind_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        here, there = (Coordinators(Cluster([Address("h", port)])) for port in (1, 2))
        moved: dict[str, dict[TopicPartition, int]] = {}

        async def committed(at: Coordinators, name: str) -> dict[TopicPartition, Committed]:
            if name == "hidden":
                raise ProtocolError(ErrorCode.GROUP_AUTHORIZATION_FAILED, f"group {name!r}")
            return {PLACE: Committed(5)} if at is here else {}

        async def commit(at: Coordinators, name: str, offsets: dict[TopicPartition, int]) -> None:
            if name == "locked":
                raise ProtocolError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"group {name!r}")
            moved[name] = offsets

        async def listed(at: Coordinators) -> list[object]:
            return []

        monkeypatch.setattr(module, "committed_offsets", committed)
        monkeypatch.setattr(module, "commit_offsets", commit)
        monkeypatch.setattr(module, "list_groups", listed)
        translations = Translations()
        translations.learn(PLACE, [Run(0, 100, 10)])
        groups = Groups(FLOW, here, there, translations)
        groups.names = ["hidden", "locked", "open"]
        assert [each.group for each in await groups.checkpoints()] == ["locked", "open"]
        with pytest.raises(ProtocolError, match="hidden"):
            groups.raise_refusal()
        groups.names = ["locked", "open"]
        with pytest.raises(ProtocolError, match="locked"):
            await groups.sync()
        assert moved == {"open": {REMOTE: 105}}

    asyncio.run(scenario())
