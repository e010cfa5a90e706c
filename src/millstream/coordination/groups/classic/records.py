"""A classic group as a record of the internal topic, and back."""

from collections import Counter
from collections.abc import Callable, Mapping

from millstream.coordination.groups.classic.group import ClassicGroup, ClassicMember, State
from millstream.coordination.groups.group import Groups
from millstream.coordination.schemas.consumer_offsets import (
    NO_TIMESTAMP,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from millstream.coordination.schemas.record import CoordinatorRecord


def stable_record(
    group: ClassicGroup, since_ms: int | None, assignments: Mapping[str, bytes] | None = None
) -> CoordinatorRecord:
    """The group with all its members; who is given no assignment here keeps the one it has."""
    members = [
        MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata(group.protocol_name),
            assignment=member.assignment if assignments is None else assignments.get(member.member_id, b""),
        )
        for member in group.members.values()
    ]
    value = GroupMetadataValue(
        protocol_type=group.protocol_type,
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=NO_TIMESTAMP if since_ms is None else since_ms,
        members=members,
    )
    return CoordinatorRecord(GroupMetadataKey(group=group.group_id), value)


def empty_record(group: ClassicGroup, now_ms: int) -> CoordinatorRecord:
    """The group without members, in its next generation."""
    value = GroupMetadataValue(
        protocol_type=group.protocol_type,
        generation=group.generation + 1,
        protocol=None,
        leader=None,
        current_state_timestamp=now_ms,
        members=[],
    )
    return CoordinatorRecord(GroupMetadataKey(group=group.group_id), value)


def replay(
    groups: Groups,
    key: GroupMetadataKey,
    value: GroupMetadataValue | None,
    timestamp_ms: int,
    report: Callable[[str], None],
) -> None:
    """Take in what a record says of a group; a group of another protocol gives way to it."""
    group = groups.get(key.group)
    if value is None:
        if isinstance(group, ClassicGroup):
            group.enter(State.DEAD, timestamp_ms)
            del groups[key.group]
        return
    if not isinstance(group, ClassicGroup):
        group = groups[key.group] = ClassicGroup(key.group)
    _take_in(group, value, report)


def _take_in(group: ClassicGroup, value: GroupMetadataValue, report: Callable[[str], None]) -> None:
    members: dict[str, ClassicMember] = {}
    instances: dict[str, str] = {}
    for row in value.members:
        if not row.member_id or row.member_id in members or row.group_instance_id in instances:
            report(f"group {group.group_id}: a damaged member {row.member_id!r} is left out")
            continue
        members[row.member_id] = _restored(row, value.protocol, group.members.get(row.member_id))
        if row.group_instance_id is not None:
            instances[row.group_instance_id] = row.member_id
    group.members = members
    group.instances = instances
    group.supporters = Counter(name for member in members.values() for name in member.protocols)
    is_missed = value.leader is not None and value.leader not in members
    group.leader_id = next(iter(members), None) if is_missed else value.leader
    group.generation = value.generation
    group.protocol_type = value.protocol_type
    group.protocol_name = value.protocol
    group.pending_sync &= members.keys()
    group.forget_topics()
    state = State.STABLE if members else State.EMPTY
    since_ms = value.current_state_timestamp
    if group.state in (State.PREPARING, State.COMPLETING):
        group.enter(state, since_ms)
    else:
        # Read from the log, where one stable generation follows the other, or the same group with another member.
        group.state = state
    group.state_since_ms = None if since_ms == NO_TIMESTAMP else since_ms


def _restored(row: MemberMetadata, protocol_name: str | None, known: ClassicMember | None) -> ClassicMember:
    member = ClassicMember(
        member_id=row.member_id,
        instance_id=row.group_instance_id,
        client_id=row.client_id,
        client_host=row.client_host,
        rebalance_timeout_ms=row.session_timeout if row.rebalance_timeout < 0 else row.rebalance_timeout,
        session_timeout_ms=row.session_timeout,
        protocols={protocol_name or "": row.subscription},
        assignment=row.assignment,
    )
    if known is not None and known.metadata(protocol_name) == row.subscription:
        member.protocols = known.protocols  # The record keeps only the one that was elected.
        member.session_timer = known.session_timer
    return member
