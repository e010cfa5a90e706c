"""From one protocol to the other while members go on: a classic group becomes a consumer group, and back."""

from collections.abc import Collection
from typing import Final

from millstream.coordination.decision import Timer
from millstream.coordination.groups.classic.events import RebalanceWanted
from millstream.coordination.groups.classic.group import ClassicGroup, ClassicMember, State
from millstream.coordination.groups.classic.records import stable_record
from millstream.coordination.groups.consumer import records
from millstream.coordination.groups.consumer.draft import Draft, Surroundings, session_timer
from millstream.coordination.groups.consumer.embedded import by_topic_id, encode_assignment
from millstream.coordination.groups.consumer.group import ConsumerGroup
from millstream.coordination.groups.consumer.member import ConsumerMember
from millstream.coordination.groups.consumer.topology import metadata_hash
from millstream.coordination.groups.group import ClusterTopics, Group
from millstream.coordination.schemas.consumer_offsets import ClassicMemberMetadata, ClassicProtocol
from millstream.coordination.schemas.consumer_protocol import (
    PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
    version_of,
)
from millstream.model.errors import CorruptFrame, ErrorCode, ProtocolError

#: Policies of group.consumer.migration.policy, in Kafka's words.
UPGRADING: Final = frozenset({"upgrade", "bidirectional"})
DOWNGRADING: Final = frozenset({"downgrade", "bidirectional"})


def opened(group_id: str, group: Group | None, surroundings: Surroundings, now_ms: int) -> Draft:
    """A draft for a member of the new protocol to join; a classic group is taken over if it may be."""
    if isinstance(group, ConsumerGroup):
        return Draft(group, surroundings, now_ms)
    if group is None:
        return Draft(ConsumerGroup(group_id), surroundings, now_ms)
    assert isinstance(group, ClassicGroup)
    if group.state is State.EMPTY:
        return Draft(ConsumerGroup(group_id), surroundings, now_ms, before=group.tombstones())
    return _upgraded(group, surroundings, now_ms)


# Upwards.


def _upgraded(classic: ClassicGroup, surroundings: Surroundings, now_ms: int) -> Draft:
    settings = surroundings.settings()
    if settings.group_consumer_migration_policy not in UPGRADING:
        raise _not_upgraded(classic, "online upgrade is disabled")
    if not classic.is_consumer:
        raise _not_upgraded(classic, "its members are no consumers")
    if len(classic.members) > settings.group_consumer_max_size:
        raise _not_upgraded(classic, "it is too large")
    group_id = classic.group_id
    try:
        members = [_consumer_member(classic, member, surroundings.topics) for member in classic.members.values()]
    except CorruptFrame as fault:
        raise _not_upgraded(classic, f"its members' metadata cannot be read: {fault}") from fault
    draft = Draft(ConsumerGroup(group_id), surroundings, now_ms, before=classic.tombstones())
    for member in members:
        draft.write(records.member_metadata(group_id, member))
    number = metadata_hash(draft.group.topics, surroundings.topics)
    draft.write(records.group_epoch(group_id, classic.generation, number))
    for member in members:
        plan = {topic_id: frozenset(partitions) for topic_id, partitions in member.assigned.items()}
        draft.write(records.target_assignment(group_id, member.member_id, plan))
    draft.write(records.assignment_epoch(group_id, classic.generation, 0))
    for member in members:
        draft.write(records.current_assignment(group_id, member))
        draft.timers.append(session_timer(group_id, member, settings))
    draft.report(f"group {group_id} goes on by the consumer protocol")
    return draft


def _consumer_member(classic: ClassicGroup, member: ClassicMember, topics: ClusterTopics) -> ConsumerMember:
    metadata = member.metadata(classic.protocol_name) or next(iter(member.protocols.values()), b"")
    subscription = decode_subscription(metadata)
    assigned: dict[bytes, dict[int, int]] = {}
    if member.assignment:
        assignment = decode_assignment(member.assignment)
        # What merely echoes the member's own, as librdkafka's sticky assignor does, is not lost.
        if assignment.user_data and assignment.user_data != subscription.user_data:
            raise _not_upgraded(classic, "it has an assignor of its own")
        for topic_id, partitions in by_topic_id(assignment.assigned_partitions, topics).items():
            assigned[topic_id] = dict.fromkeys(partitions, classic.generation)
    return ConsumerMember(
        member_id=member.member_id,
        epoch=classic.generation,
        previous_epoch=classic.generation,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=frozenset(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMemberMetadata(
            session_timeout_ms=member.session_timeout_ms,
            supported_protocols=[ClassicProtocol(name=name, metadata=data) for name, data in member.protocols.items()],
        ),
        assigned=assigned,
    )


def _not_upgraded(classic: ClassicGroup, reason: str) -> ProtocolError:
    return ProtocolError(ErrorCode.GROUP_ID_NOT_FOUND, f"{classic.group_id} cannot become a consumer group: {reason}")


# Downwards.


def may_downgrade(draft: Draft, leaving: Collection[ConsumerMember]) -> bool:
    """Whether only classic members would be left, and may have the group for themselves."""
    gone = {member.member_id for member in leaving}
    left = [member for member in draft.group.members.values() if member.member_id not in gone]
    settings = draft.settings
    return (
        0 < len(left) <= settings.group_max_size
        and all(member.is_classic for member in left)
        and settings.group_consumer_migration_policy in DOWNGRADING
    )


def downgrade(draft: Draft, leaving: Collection[ConsumerMember], topics: ClusterTopics, *, is_called: bool) -> None:
    """Go on as a classic group, which is called together if ``is_called``."""
    group = draft.group
    classic = _classic_group(group, {member.member_id for member in leaving}, topics)
    for tombstone in group.tombstones():
        draft.records.append(tombstone)
    for member_id in group.members:
        draft.timers += draft.timers_off(member_id)
    if is_called:
        classic.leader_id = None  # By which the log tells of it, should the group be loaded before it has met.
        event = RebalanceWanted(group.group_id, "the last member of the consumer protocol is gone")
        draft.timers.append(Timer(("downgraded", group.group_id), 0, event))
    else:
        draft.timers += [classic.session_timer(member) for member in classic.members.values()]
    draft.records.append(stable_record(classic, draft.now_ms))
    draft.report(f"group {group.group_id} goes on by the classic protocol")


def _classic_group(group: ConsumerGroup, gone: Collection[str], topics: ClusterTopics) -> ClassicGroup:
    classic = ClassicGroup(group.group_id)
    classic.generation = group.epoch
    for member in group.members.values():
        if member.member_id not in gone:
            assert member.classic is not None
            protocols = {each.name: each.metadata for each in member.classic.supported_protocols}
            heir = ClassicMember(
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.classic.session_timeout_ms,
                protocols=protocols,
            )
            classic.add(heir, PROTOCOL_TYPE)
    classic.protocol_name = classic.elect_protocol()
    for heir in classic.members.values():
        plan = group.plans.get(heir.member_id, {})
        heir.assignment = encode_assignment(plan, version_of(heir.metadata(classic.protocol_name)), topics)
    return classic
