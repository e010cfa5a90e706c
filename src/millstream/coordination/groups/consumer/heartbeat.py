"""ConsumerGroupHeartbeat: how a member of the new protocol joins, stays, and learns what it has."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from millstream.coordination.decision import Question
from millstream.coordination.groups.consumer.draft import Draft
from millstream.coordination.groups.consumer.group import ConsumerGroup
from millstream.coordination.groups.consumer.member import (
    AWAY_EPOCH,
    JOINING_EPOCH,
    LEAVING_EPOCH,
    ConsumerMember,
    MemberState,
    Owned,
)
from millstream.coordination.groups.settings import GroupSettings
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

#: From this version on clients make their own member ids.
OWN_ID_VERSION_MIN: Final = 1
UNSAID_MS: Final = -1


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, settings: GroupSettings) -> None:
    """Refuse what no group could answer."""
    epoch = request.member_epoch
    if not settings.has_consumer_protocol:
        raise ProtocolError(ErrorCode.UNSUPPORTED_VERSION, "the consumer protocol is switched off")
    if version >= OWN_ID_VERSION_MIN or epoch > JOINING_EPOCH or epoch == LEAVING_EPOCH:
        _check_text("MemberId", request.member_id)
    _check_text("GroupId", request.group_id)
    _check_text("InstanceId", request.instance_id)
    _check_text("RackId", request.rack_id)
    if epoch == JOINING_EPOCH:
        if request.rebalance_timeout_ms == UNSAID_MS:
            raise _invalid("RebalanceTimeoutMs must be given when joining")
        if request.topic_partitions is None or request.topic_partitions:
            raise _invalid("TopicPartitions must be empty when joining")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise _invalid("SubscribedTopicNames or SubscribedTopicRegex must be given when joining")
    elif epoch == AWAY_EPOCH:
        if request.instance_id is None:
            raise _invalid("InstanceId must be given when leaving for a while")
    elif epoch < AWAY_EPOCH:
        raise _invalid("MemberEpoch is none")
    if request.server_assignor is not None and request.server_assignor not in settings.group_consumer_assignors:
        known = ", ".join(settings.group_consumer_assignors)
        raise ProtocolError(ErrorCode.UNSUPPORTED_ASSIGNOR, f"{request.server_assignor} is none of {known}")


def has_nothing_new(group: ConsumerGroup, member: ConsumerMember, question: Question, now_ms: int) -> bool:
    """Whether a heartbeat says nothing, and there is nothing to say: the cheap and by far most common case."""
    request: ConsumerGroupHeartbeatRequest = question.request
    return (
        request.member_epoch == member.epoch == group.assignment_epoch == group.epoch
        and member.state is MemberState.STABLE
        and request.topic_partitions is None
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.rebalance_timeout_ms == UNSAID_MS
        and request.server_assignor is None
        and request.rack_id is None
        and (request.instance_id is None or request.instance_id == member.instance_id)
        and not member.is_classic
        and question.client_id == member.client_id
        and question.client_host == member.client_host
        and now_ms < group.fresh_until_ms
    )


def beat(draft: Draft, question: Question, member_id: str) -> ConsumerGroupHeartbeatResponse:
    """Take in what a member says, plan anew if need be, and lead it one step on."""
    request: ConsumerGroupHeartbeatRequest = question.request
    check_size(draft, request.member_id)
    if request.instance_id is None:
        before = _dynamic_member(draft, request, member_id)
    else:
        before = _static_member(draft, request, request.instance_id, member_id)
    names, pattern = request.subscribed_topic_names, request.subscribed_topic_regex
    told = replace(
        before,
        instance_id=before.instance_id if request.instance_id is None else request.instance_id,
        rack_id=before.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=(
            before.rebalance_timeout_ms if request.rebalance_timeout_ms == UNSAID_MS else request.rebalance_timeout_ms
        ),
        assignor=before.assignor if request.server_assignor is None else request.server_assignor,
        topics=before.topics if names is None else frozenset(names),
        regex=before.regex if pattern is None else pattern,
        client_id=question.client_id,
        client_host=question.client_host,
        classic=None,
    )
    has_new_topics = draft.enrol(told)
    draft.plan()
    reported = _by_topic(request.topic_partitions)
    after = draft.reconcile(member_id, reported, has_new_topics=has_new_topics)
    is_full = (
        request.rebalance_timeout_ms != UNSAID_MS
        and (names is not None or pattern is not None)
        and reported is not None
    )
    is_shown = request.member_epoch == JOINING_EPOCH or is_full or after.assigned != before.assigned
    return ConsumerGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=after.epoch,
        heartbeat_interval_ms=draft.settings.group_consumer_heartbeat_interval_ms,
        assignment=_assignment(after.assigned) if is_shown else None,
    )


def check_size(draft: Draft, member_id: str) -> None:
    """Refuse one more member than the group may have."""
    size_max = draft.settings.group_consumer_max_size
    if len(draft.group.members) >= size_max and member_id not in draft.group.members:
        raise ProtocolError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"a group has at most {size_max} members")


def _dynamic_member(draft: Draft, request: ConsumerGroupHeartbeatRequest, member_id: str) -> ConsumerMember:
    if request.member_epoch == JOINING_EPOCH:
        return draft.group.members.get(member_id) or ConsumerMember(member_id)
    member = draft.group.member(member_id)
    _check_epoch(member, request)
    return member


def _static_member(
    draft: Draft, request: ConsumerGroupHeartbeatRequest, instance_id: str, member_id: str
) -> ConsumerMember:
    group = draft.group
    if request.member_epoch != JOINING_EPOCH:
        member = group.static_member(instance_id, member_id)
        _check_epoch(member, request)
        return member
    current_id = group.instances.get(instance_id)
    if current_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    current = group.members[current_id]
    # A classic member never says that it is away, so that it can always be replaced.
    if not current.is_classic and current.epoch != AWAY_EPOCH:
        raise ProtocolError(ErrorCode.UNRELEASED_INSTANCE_ID, f"instance {instance_id} is {current_id} still")
    return draft.replace_static(current, member_id)


def _check_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> None:
    epoch = request.member_epoch
    if epoch == member.epoch:
        return
    # The answer that told it of its epoch may have been lost; it has then at most what that gave it.
    if epoch == member.previous_epoch and epoch < member.epoch:
        reported = _by_topic(request.topic_partitions)
        if reported is not None and _is_within(reported, member.assigned):
            return
    raise ProtocolError(
        ErrorCode.FENCED_MEMBER_EPOCH, f"{epoch} is not the member's epoch, which is {member.epoch}: join again"
    )


def _is_within(reported: dict[bytes, Sequence[int]], assigned: Owned) -> bool:
    return all(
        topic_id in assigned and all(partition in assigned[topic_id] for partition in partitions)
        for topic_id, partitions in reported.items()
    )


def _by_topic(listed: Sequence[TopicPartitions] | None) -> dict[bytes, Sequence[int]] | None:
    return None if listed is None else {topic.topic_id: topic.partitions for topic in listed}


def _assignment(assigned: Owned) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in assigned.items()
        ]
    )


def _check_text(name: str, text: str | None) -> None:
    if text is not None and not text.strip():
        raise _invalid(f"{name} must not be empty")


def _invalid(detail: str) -> ProtocolError:
    return ProtocolError(ErrorCode.INVALID_REQUEST, detail)
