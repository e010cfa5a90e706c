"""A member of a consumer group, by the classic protocol: joins, keeps alive, commits, leaves."""

import asyncio
from collections.abc import Mapping, Sequence

from millstream.client.assignors import ASSIGNORS
from millstream.client.cluster import check
from millstream.client.coordinators import Coordinators, Kind
from millstream.client.groups import CONSUMERS, by_topic, commit_offsets
from millstream.coordination.schemas.consumer_protocol import (
    NamedAssignment,
    NamedPartitions,
    Subscription,
    decode_assignment,
    decode_subscription,
)
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.model.ids import TopicPartition
from millstream.protocol.codec import encode
from millstream.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from millstream.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from millstream.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from millstream.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

SESSION_TIMEOUT_MS = 45_000
REBALANCE_TIMEOUT_MS = 60_000
HEARTBEAT_EACH_S = 3.0
#: Leaving is a courtesy: a coordinator that does not answer will notice by itself.
LEAVE_TIMEOUT_S = 2.0
#: The version in which we write what members tell each other; each begins with it.
_DIALECT = 0
#: What says that the group goes on without us as we are, and that we are to join anew.
REJOIN = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
    }
)


class Membership:
    """One member. ``join`` gives its partitions, ``beat`` keeps them until the group is shared out anew."""

    def __init__(self, coordinators: Coordinators, group: str, topics: Sequence[str]) -> None:
        self.group = group
        self._coordinators = coordinators
        self._topics = sorted(set(topics))
        self._member_id = ""
        self._generation = -1

    async def join(self) -> list[TopicPartition]:
        """Take part in the next sharing out, however often it is begun anew, and return our partitions."""
        while True:
            joined = await self._join()
            if joined is None:
                continue
            answer = await self._sync(joined)
            if answer.error_code in REJOIN:
                self._forget_if_unknown(answer.error_code)
                continue
            check(answer.error_code, f"group {self.group!r}")
            assigned = decode_assignment(bytes(answer.assignment)).assigned_partitions if answer.assignment else []
            return sorted(TopicPartition(each.topic, number) for each in assigned for number in each.partitions)

    async def beat(self) -> None:
        """Tell that we are alive, for ever; returns when we are to join again."""
        while True:
            await asyncio.sleep(HEARTBEAT_EACH_S)
            answer = await self._coordinators.ask(
                Kind.GROUP,
                self.group,
                HeartbeatRequest(group_id=self.group, generation_id=self._generation, member_id=self._member_id),
                HeartbeatResponse,
                lambda answer: [answer.error_code],
            )
            if answer.error_code in REJOIN:
                self._forget_if_unknown(answer.error_code)
                return
            check(answer.error_code, f"group {self.group!r}")

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Commit as this member; False when the group has gone on without us, and others read these partitions."""
        try:
            await commit_offsets(
                self._coordinators, self.group, offsets, member_id=self._member_id, generation=self._generation
            )
        except ProtocolError as error:
            if error.code not in REJOIN:
                raise
            return False
        return True

    async def leave(self) -> None:
        """Let the others have our partitions at once."""
        if not self._member_id:
            return
        try:
            async with asyncio.timeout(LEAVE_TIMEOUT_S):
                await self._coordinators.ask(
                    Kind.GROUP,
                    self.group,
                    LeaveGroupRequest(
                        group_id=self.group,
                        member_id=self._member_id,
                        members=[MemberIdentity(member_id=self._member_id, reason="the consumer is being closed")],
                    ),
                    LeaveGroupResponse,
                    lambda answer: [answer.error_code],
                )
        except (TimeoutError, ConnectionError, ProtocolError):
            pass

    async def _join(self) -> JoinGroupResponse | None:
        """The generation we are in; None when we must ask again, under another id."""
        metadata = _DIALECT.to_bytes(2, "big") + encode(Subscription(topics=self._topics), _DIALECT)
        answer = await self._coordinators.ask(
            Kind.GROUP,
            self.group,
            JoinGroupRequest(
                group_id=self.group,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                member_id=self._member_id,
                protocol_type=CONSUMERS,
                protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in ASSIGNORS],
            ),
            JoinGroupResponse,
            lambda answer: [answer.error_code],
            waits_s=REBALANCE_TIMEOUT_MS / 1000,
        )
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id
            return None
        if answer.error_code in REJOIN:
            self._forget_if_unknown(answer.error_code)
            return None
        if answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            raise ProtocolError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"the members of group {self.group!r} share partitions out in none of these ways: "
                + ", ".join(ASSIGNORS),
            )
        check(answer.error_code, f"group {self.group!r}")
        self._member_id, self._generation = answer.member_id, answer.generation_id
        return answer

    async def _sync(self, joined: JoinGroupResponse) -> SyncGroupResponse:
        is_leader = joined.leader == self._member_id and not joined.skip_assignment
        return await self._coordinators.ask(
            Kind.GROUP,
            self.group,
            SyncGroupRequest(
                group_id=self.group,
                generation_id=self._generation,
                member_id=self._member_id,
                protocol_type=CONSUMERS,
                protocol_name=joined.protocol_name,
                assignments=await self._share_out(joined) if is_leader else [],
            ),
            SyncGroupResponse,
            lambda answer: [answer.error_code],
            waits_s=REBALANCE_TIMEOUT_MS / 1000,
        )

    async def _share_out(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """The partitions for every member, as leaders are to decide; topics that are not there have none."""
        subscriptions = {row.member_id: decode_subscription(bytes(row.metadata)).topics for row in joined.members}
        cluster = self._coordinators.cluster
        wanted = {topic for topics in subscriptions.values() for topic in topics}
        await cluster.refresh(sorted(wanted))
        counts = {name: len(cluster.topics[name].partitions) for name in wanted if name in cluster.topics}
        shares = ASSIGNORS[joined.protocol_name or ""](subscriptions, counts)
        return [
            SyncGroupRequestAssignment(member_id=member, assignment=_encoded(partitions))
            for member, partitions in shares.items()
        ]

    def _forget_if_unknown(self, code: int) -> None:
        """An id that the coordinator does not know will never be known again."""
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""


def _encoded(partitions: Sequence[TopicPartition]) -> bytes:
    assignment = NamedAssignment(
        assigned_partitions=[
            NamedPartitions(topic=topic, partitions=numbers) for topic, numbers in by_topic(partitions).items()
        ]
    )
    return _DIALECT.to_bytes(2, "big") + encode(assignment, _DIALECT)
