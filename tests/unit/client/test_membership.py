"""Being a member of a group: joining, leading, being told to come back."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from millstream.client import membership as module
from millstream.client.cluster import Cluster
from millstream.client.coordinators import Coordinators
from millstream.client.membership import Membership
from millstream.coordination.schemas.consumer_protocol import decode_assignment
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from millstream.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from millstream.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from millstream.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from millstream.protocol.messages.metadata import MetadataRequest
from millstream.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from millstream.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from millstream.protocol.schema import Request
from tests.unit.client.scripted_broker import Answer, ScriptedBroker, metadata_of

OTHER = "another-member"
PARTITION = TopicPartition("orders", 0)


class Scripted:
    """A coordinator whose refusals are listed beforehand; it makes whoever joins the leader of two members."""

    def __init__(self) -> None:
        self.joins: list[ErrorCode] = []
        self.syncs: list[ErrorCode] = []
        self.beats: list[ErrorCode] = []
        self.commits: list[ErrorCode] = []
        self.broker = ScriptedBroker(
            {
                FindCoordinatorRequest.API_KEY: self.find,
                JoinGroupRequest.API_KEY: self.join,
                SyncGroupRequest.API_KEY: self.sync,
                HeartbeatRequest.API_KEY: lambda _: HeartbeatResponse(error_code=self.beats.pop(0)),
                OffsetCommitRequest.API_KEY: self.commit,
                LeaveGroupRequest.API_KEY: lambda _: LeaveGroupResponse(),
            }
        )

    def find(self, request: Request) -> Answer:
        host, port = self.broker.address
        return FindCoordinatorResponse(coordinators=[Coordinator(key="billing", node_id=1, host=host, port=port)])

    def join(self, request: Request) -> Answer:
        assert isinstance(request, JoinGroupRequest)
        code = self.joins.pop(0) if self.joins else ErrorCode.NONE
        if code:
            return JoinGroupResponse(error_code=code, member_id="given")
        members = [
            JoinGroupResponseMember(member_id=member_id, metadata=bytes(request.protocols[0].metadata))
            for member_id in (request.member_id or "given", OTHER)
        ]
        return JoinGroupResponse(
            generation_id=7,
            protocol_type="consumer",
            protocol_name="range",
            leader=members[0].member_id,
            member_id=members[0].member_id,
            members=members,
        )

    def sync(self, request: Request) -> Answer:
        assert isinstance(request, SyncGroupRequest)
        if self.syncs:
            return SyncGroupResponse(error_code=self.syncs.pop(0))
        shares = {row.member_id: bytes(row.assignment) for row in request.assignments}
        return SyncGroupResponse(assignment=shares[request.member_id])

    def commit(self, request: Request) -> Answer:
        row = OffsetCommitResponsePartition(partition_index=0, error_code=self.commits.pop(0))
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="orders", partitions=[row])])

    def seen(self, kind: type[Request]) -> list[Any]:
        return [request for request in self.broker.seen if isinstance(request, kind)]


def run(scripted: Scripted, work: Any) -> None:
    async def scenario() -> None:
        async with asyncio.timeout(20), scripted.broker as broker:
            broker.handlers[MetadataRequest.API_KEY] = metadata_of({1: broker.address}, {"orders": [1, 1, 1]})
            async with Cluster([broker.address]) as cluster:
                story: Coroutine[Any, Any, None] = work(Membership(Coordinators(cluster), "billing", ["orders"]))
                await story

    asyncio.run(scenario())


def test_a_leader_shares_out_and_gets_its_own_share() -> None:
    scripted = Scripted()

    async def story(member: Membership) -> None:
        assert await member.join() == [TopicPartition("orders", 2)]  # "another-member" comes before "given".

    run(scripted, story)
    [sync] = scripted.seen(SyncGroupRequest)
    shares = {row.member_id: decode_assignment(bytes(row.assignment)) for row in sync.assignments}
    assert [each.partitions for each in shares[OTHER].assigned_partitions] == [[0, 1]]


def test_a_new_member_comes_back_with_the_id_it_is_given() -> None:
    scripted = Scripted()
    scripted.joins = [ErrorCode.MEMBER_ID_REQUIRED]

    async def story(member: Membership) -> None:
        await member.join()

    run(scripted, story)
    assert [request.member_id for request in scripted.seen(JoinGroupRequest)] == ["", "given"]


def test_a_sharing_out_that_is_begun_anew_is_joined_again() -> None:
    """With our id, unless the coordinator does not know it."""
    scripted = Scripted()
    scripted.syncs = [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID]

    async def story(member: Membership) -> None:
        await member.join()

    run(scripted, story)
    assert [request.member_id for request in scripted.seen(JoinGroupRequest)] == ["", "given", ""]


def test_a_group_of_another_protocol_is_refused() -> None:
    scripted = Scripted()
    scripted.joins = [ErrorCode.INCONSISTENT_GROUP_PROTOCOL]

    async def story(member: Membership) -> None:
        with pytest.raises(ProtocolError, match="in none of these ways: range, roundrobin"):
            await member.join()

    run(scripted, story)


def test_beats_go_on_until_the_group_is_shared_out_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEARTBEAT_EACH_S", 0.001)
    scripted = Scripted()
    scripted.beats = [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS]

    async def story(member: Membership) -> None:
        await member.join()
        await member.beat()

    run(scripted, story)
    assert [(beat.member_id, beat.generation_id) for beat in scripted.seen(HeartbeatRequest)] == [("given", 7)] * 3


def test_a_commit_says_whether_the_partitions_are_still_ours() -> None:
    scripted = Scripted()
    scripted.commits = [ErrorCode.NONE, ErrorCode.ILLEGAL_GENERATION, ErrorCode.OFFSET_METADATA_TOO_LARGE]

    async def story(member: Membership) -> None:
        await member.join()
        assert await member.commit({PARTITION: 5})
        assert not await member.commit({PARTITION: 6})
        with pytest.raises(ProtocolError, match="OFFSET_METADATA_TOO_LARGE"):
            await member.commit({PARTITION: 7})

    run(scripted, story)
    first = scripted.seen(OffsetCommitRequest)[0]
    assert (first.member_id, first.generation_id_or_member_epoch) == ("given", 7)


def test_only_a_member_leaves() -> None:
    scripted = Scripted()

    async def story(member: Membership) -> None:
        await member.leave()
        assert scripted.seen(LeaveGroupRequest) == []
        await member.join()
        await member.leave()

    run(scripted, story)
    [left] = scripted.seen(LeaveGroupRequest)
    assert [each.member_id for each in left.members] == ["given"]
