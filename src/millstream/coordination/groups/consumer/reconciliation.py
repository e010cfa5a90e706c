"""How a member is led to the plan: it gives back first, and is given only what nobody else still has.

The next state follows from what is left to do, and from no other thing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from millstream.coordination.groups.consumer.member import ConsumerMember, MemberState, Owned, Plan
from millstream.model.ids import Uuid

#: state -> the states it may enter; any may stay as it is.  Anything else is our bug, never the client's.
TRANSITIONS: Final = {
    MemberState.STABLE: {MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS},
    MemberState.UNREVOKED_PARTITIONS: {MemberState.STABLE, MemberState.UNRELEASED_PARTITIONS},
    MemberState.UNRELEASED_PARTITIONS: {MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS},
}

#: What a member says it has, by topic; None when it does not say.
Reported = Mapping[Uuid, Iterable[int]] | None


class Direction(NamedTuple):
    """Where a member is led: the plan of an epoch, as far as it reads those topics."""

    epoch: int
    plan: Plan
    topic_ids: frozenset[Uuid]
    #: Whether what it reads has just changed, so that what it no longer reads must go at once.
    has_new_topics: bool


def reconcile(
    member: ConsumerMember, direction: Direction, owners: Mapping[tuple[Uuid, int], str], reported: Reported
) -> ConsumerMember:
    """The member after its next step; the same one while it can take none."""
    state = member.state
    has_arrived = state is MemberState.STABLE and member.epoch == direction.epoch
    if has_arrived or (state is MemberState.UNREVOKED_PARTITIONS and _has_any(reported, member.revoking)):
        after = _without_unread(member, direction, reported) if direction.has_new_topics else member
    else:
        after = _next(member, direction, owners, reported)
    assert after.state is state or after.state in TRANSITIONS[state]
    return after


def _next(
    member: ConsumerMember, direction: Direction, owners: Mapping[tuple[Uuid, int], str], reported: Reported
) -> ConsumerMember:
    plan = {topic_id: wanted for topic_id, wanted in direction.plan.items() if topic_id in direction.topic_ids}
    assigned: dict[Uuid, dict[int, int]] = {}
    revoking: dict[Uuid, dict[int, int]] = {}
    for topic_id, partitions in member.assigned.items():
        wanted = plan.get(topic_id, frozenset())
        for partition, epoch in partitions.items():
            side = assigned if partition in wanted else revoking
            side.setdefault(topic_id, {})[partition] = epoch
    if revoking and _has_any(reported, revoking):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            previous_epoch=member.epoch,
            assigned=assigned,
            revoking=revoking,
        )
    has_unreleased = False
    for topic_id, wanted in plan.items():
        for partition in sorted(wanted.difference(assigned.get(topic_id, ()))):
            # What it has itself given back is free: nobody else can have had it meanwhile.
            if owners.get((topic_id, partition), member.member_id) == member.member_id:
                assigned.setdefault(topic_id, {})[partition] = direction.epoch
            else:
                has_unreleased = True
    return replace(
        member,
        state=MemberState.UNRELEASED_PARTITIONS if has_unreleased else MemberState.STABLE,
        epoch=direction.epoch,
        previous_epoch=member.epoch,
        assigned=assigned,
        revoking={},
    )


def _without_unread(member: ConsumerMember, direction: Direction, reported: Reported) -> ConsumerMember:
    """Take from a member what it no longer reads, before there is a plan that says so."""
    unread = {topic_id for topic_id in member.assigned if topic_id not in direction.topic_ids}
    if not unread:
        return member
    assigned = {topic_id: each for topic_id, each in member.assigned.items() if topic_id not in unread}
    revoking = {topic_id: dict(each) for topic_id, each in member.revoking.items()}
    for topic_id in unread:
        revoking.setdefault(topic_id, {}).update(member.assigned[topic_id])
    if _has_any(reported, revoking):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            previous_epoch=member.epoch,
            assigned=assigned,
            revoking=revoking,
        )
    return replace(member, previous_epoch=member.epoch, assigned=assigned)


def _has_any(reported: Reported, owned: Owned) -> bool:
    """Whether a member still has any of these; one that does not say may have all."""
    if reported is None:
        return True
    return any(
        partition in partitions
        for topic_id, partitions in owned.items()
        if topic_id in reported
        for partition in reported[topic_id]
    )
