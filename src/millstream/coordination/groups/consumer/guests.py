"""Classic members in a consumer group: they join, sync and beat as ever, and are led to the plan all the same."""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final

from millstream.coordination.decision import Decision, Question, Timer
from millstream.coordination.groups.consumer.draft import (
    REJOIN,
    SYNC,
    ConsumerSyncExpired,
    Draft,
    RejoinExpired,
    Surroundings,
    session_timer,
)
from millstream.coordination.groups.consumer.embedded import by_topic_id, encode_assignment
from millstream.coordination.groups.consumer.group import ConsumerGroup
from millstream.coordination.groups.consumer.heartbeat import check_size
from millstream.coordination.groups.consumer.member import ConsumerMember, MemberState
from millstream.coordination.groups.consumer.migration import downgrade, may_downgrade
from millstream.coordination.schemas.consumer_offsets import ClassicMemberMetadata, ClassicProtocol
from millstream.coordination.schemas.consumer_protocol import (
    PROTOCOL_TYPE,
    Subscription,
    decode_subscription,
    version_of,
)
from millstream.model.errors import CorruptFrame, ErrorCode, ProtocolError
from millstream.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from millstream.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from millstream.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from millstream.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

#: From here on a new member is told its id, and comes back with it.
KNOWN_ID_FROM: Final = 4
#: From here on a LeaveGroup names several members, and the answer each of them.
BATCH_LEAVE_FROM: Final = 3

#: Lets members go, with an answer for whoever asked.
Fence = Callable[[ConsumerGroup, Collection[ConsumerMember], int], Draft]


class Guests:
    """What the classic protocol asks of a consumer group."""

    def __init__(self, surroundings: Surroundings, fence: Fence) -> None:
        self._surroundings = surroundings
        self._fence = fence

    def join(self, group: ConsumerGroup, question: Question, now_ms: int) -> Decision:
        """A classic member joins: it is answered at once, for nobody waits for the others here."""
        request: JoinGroupRequest = question.request
        if not group.members:
            raise ProtocolError(ErrorCode.UNKNOWN_MEMBER_ID, f"{request.member_id!r} is not known")
        draft = Draft(group, self._surroundings, now_ms)
        is_unknown = not request.member_id
        member_id = request.member_id or self._surroundings.new_id()
        check_size(draft, member_id)
        _check_protocols(group, request)
        if is_unknown and request.group_instance_id is None and question.version >= KNOWN_ID_FROM:
            answer = JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)
            return draft.decision((question.ticket, answer))
        subscription = _subscription(request)
        before, was_replaced = _member(draft, request, member_id, is_unknown=is_unknown)
        has_new_topics = draft.enrol(_told(before, request, question, subscription))
        owned = by_topic_id(subscription.owned_partitions, self._surroundings.topics)
        is_downgraded = was_replaced and may_downgrade(draft, ())
        is_called = draft.group.assignment_epoch < draft.group.epoch
        if not is_downgraded:
            draft.plan()
        after = draft.group.members[member_id]
        if not (is_downgraded and is_called):
            after = draft.reconcile(member_id, owned, has_new_topics=has_new_topics)
        if is_downgraded:
            downgrade(draft, (), self._surroundings.topics, is_called=is_called)
        else:
            draft.timers += _timers_joined(group.group_id, after, draft)
        group.rejoining.discard(member_id)
        assert after.classic is not None
        answer = JoinGroupResponse(
            generation_id=after.epoch,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=after.classic.supported_protocols[0].name,
            member_id=member_id,
        )
        return draft.decision((question.ticket, answer))

    def sync(self, group: ConsumerGroup, question: Question) -> Decision:
        """A classic member asks for what it has; there is no leader to wait for."""
        request: SyncGroupRequest = question.request
        member, classic = _guest(group, request.member_id, request.group_instance_id, request.generation_id)
        own = classic.supported_protocols[0]
        if request.protocol_type is not None and request.protocol_type != PROTOCOL_TYPE:
            raise ProtocolError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"{request.protocol_type} is not consumer")
        if request.protocol_name is not None and request.protocol_name != own.name:
            raise ProtocolError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"{request.protocol_name} is not {own.name}")
        group_id, topics = group.group_id, self._surroundings.topics
        if member.epoch < group.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            answer = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
            return Decision(timers=_rejoin_timers(group, member), answers=((question.ticket, answer),))
        answer = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=encode_assignment(member.assigned, version_of(own.metadata), topics),
        )
        timers = (
            Timer((SYNC, group_id, member.member_id), None),
            session_timer(group_id, member, self._surroundings.settings()),
        )
        return Decision(timers=timers, answers=((question.ticket, answer),))

    def heartbeat(self, group: ConsumerGroup, question: Question) -> Decision:
        """A classic member is alive, and learns whether there is more for it, or less."""
        request: HeartbeatRequest = question.request
        member, _ = _guest(group, request.member_id, request.group_instance_id, request.generation_id)
        timers = [session_timer(group.group_id, member, self._surroundings.settings())]
        code = ErrorCode.NONE
        if _must_rejoin(group, member):
            code = ErrorCode.REBALANCE_IN_PROGRESS
            timers += _rejoin_timers(group, member)
        return Decision(timers=timers, answers=((question.ticket, HeartbeatResponse(error_code=code)),))

    def leave(self, group: ConsumerGroup, question: Question, now_ms: int) -> Decision:
        """Members go at once."""
        request: LeaveGroupRequest = question.request
        is_batch = question.version >= BATCH_LEAVE_FROM
        leaving = request.members if is_batch else [MemberIdentity(member_id=request.member_id)]
        members: dict[str, ConsumerMember] = {}
        rows = []
        for identity in leaving:
            code = ErrorCode.NONE
            try:
                member = _leaver(group, identity)
                members[member.member_id] = member
            except ProtocolError as refusal:
                code = refusal.code
            rows.append(
                MemberResponse(
                    member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code
                )
            )
        answer = LeaveGroupResponse(members=rows) if is_batch else LeaveGroupResponse(error_code=rows[0].error_code)
        if not members:
            return Decision(answers=((question.ticket, answer),))
        return self._fence(group, members.values(), now_ms).decision((question.ticket, answer))


def _check_protocols(group: ConsumerGroup, request: JoinGroupRequest) -> None:
    """There must be one that all classic members speak."""
    guests = [member.classic for member in group.members.values() if member.classic]
    common = {each.name for each in request.protocols}
    for guest in guests:
        common &= {each.name for each in guest.supported_protocols}
    if request.protocol_type != PROTOCOL_TYPE or not common:
        raise ProtocolError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the group speaks none of the member's protocols")


def _subscription(request: JoinGroupRequest) -> Subscription:
    try:
        return decode_subscription(bytes(request.protocols[0].metadata))
    except CorruptFrame as fault:
        raise ProtocolError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"the subscription cannot be read: {fault}"
        ) from fault


def _member(
    draft: Draft, request: JoinGroupRequest, member_id: str, *, is_unknown: bool
) -> tuple[ConsumerMember, bool]:
    """Who joins, and whether it took the place of a static member of the new protocol."""
    group, instance_id = draft.group, request.group_instance_id
    if instance_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id), False
    if not is_unknown:
        return group.static_member(instance_id, member_id), False
    current_id = group.instances.get(instance_id)
    if current_id is None:
        return ConsumerMember(member_id), False
    current = group.members[current_id]
    return draft.replace_static(current, member_id), not current.is_classic


def _told(
    before: ConsumerMember, request: JoinGroupRequest, question: Question, subscription: Subscription
) -> ConsumerMember:
    timeout_ms = request.rebalance_timeout_ms
    protocols = [ClassicProtocol(name=each.name, metadata=bytes(each.metadata)) for each in request.protocols]
    return replace(
        before,
        instance_id=before.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or before.rack_id,
        rebalance_timeout_ms=request.session_timeout_ms if timeout_ms < 0 else timeout_ms,
        topics=frozenset(subscription.topics),
        regex="",
        client_id=question.client_id,
        client_host=question.client_host,
        classic=ClassicMemberMetadata(session_timeout_ms=request.session_timeout_ms, supported_protocols=protocols),
    )


def _timers_joined(group_id: str, member: ConsumerMember, draft: Draft) -> list[Timer]:
    """It has joined, and has as long as a rebalance may take to ask for its assignment."""
    member_id = member.member_id
    return [
        Timer((REJOIN, group_id, member_id), None),
        session_timer(group_id, member, draft.settings),
        Timer((SYNC, group_id, member_id), member.rebalance_timeout_ms, ConsumerSyncExpired(group_id, member_id)),
    ]


def _rejoin_timers(group: ConsumerGroup, member: ConsumerMember) -> list[Timer]:
    """It has as long as a rebalance may take, from the first time it is told."""
    if member.member_id in group.rejoining:
        return []
    group.rejoining.add(member.member_id)
    event = RejoinExpired(group.group_id, member.member_id)
    return [Timer((REJOIN, group.group_id, member.member_id), member.rebalance_timeout_ms, event)]


def _guest(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[ConsumerMember, ClassicMemberMetadata]:
    member = group.member(member_id) if instance_id is None else group.static_member(instance_id, member_id)
    if member.classic is None:
        raise ProtocolError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} does not speak the classic protocol")
    if generation != member.epoch:
        raise ProtocolError(ErrorCode.ILLEGAL_GENERATION, f"{generation} is not {member.epoch}")
    return member, member.classic


def _must_rejoin(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """A new plan is wanted or there, or it has to give back, or what it waited for has become free."""
    if member.epoch < group.epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    return member.state is MemberState.UNRELEASED_PARTITIONS and not any(
        (topic_id, partition) in group.owners
        for topic_id, partitions in group.plans.get(member.member_id, {}).items()
        for partition in partitions.difference(member.assigned.get(topic_id, ()))
    )


def _leaver(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    instance_id = identity.group_instance_id
    if instance_id is None:
        return group.member(identity.member_id)
    # An administrator names the instance alone.
    return group.static_member(instance_id, identity.member_id or group.instances.get(instance_id, ""))
