"""How a member is led to the plan, from each state."""

from dataclasses import replace

import pytest

from millstream.coordination.groups.consumer.member import ConsumerMember, MemberState
from millstream.coordination.groups.consumer.reconciliation import Direction, Reported, reconcile

T, U = b"t" * 16, b"u" * 16
STABLE = MemberState.STABLE
UNREVOKED = MemberState.UNREVOKED_PARTITIONS
UNRELEASED = MemberState.UNRELEASED_PARTITIONS

Owners = dict[tuple[bytes, int], str]


def member(state: MemberState, assigned: set[int], revoking: set[int] = frozenset()) -> ConsumerMember:  # type: ignore[assignment]
    return ConsumerMember(
        "m",
        epoch=5,
        previous_epoch=4,
        state=state,
        assigned={T: dict.fromkeys(assigned, 3)} if assigned else {},
        revoking={T: dict.fromkeys(revoking, 3)} if revoking else {},
    )


def led(before: ConsumerMember, plan: set[int], others: set[int], reported: Reported, epoch: int = 6) -> ConsumerMember:
    direction = Direction(epoch, {T: frozenset(plan)}, frozenset({T}), has_new_topics=False)
    owners: Owners = {(T, each): "other" for each in others}
    owners |= {(T, each): "m" for owned in (before.assigned, before.revoking) for each in owned.get(T, ())}
    return reconcile(before, direction, owners, reported)


def shown(after: ConsumerMember) -> tuple[MemberState, int, set[int], set[int]]:
    return (after.state, after.epoch, set(after.assigned.get(T, ())), set(after.revoking.get(T, ())))


@pytest.mark.parametrize(
    ("before", "plan", "others", "reported", "after"),
    [
        # Where there is nothing to do, it moves to the plan's epoch.
        (member(STABLE, {1, 2}), {1, 2}, set(), None, (STABLE, 6, {1, 2}, set())),
        (member(STABLE, {1}), {1, 2}, set(), None, (STABLE, 6, {1, 2}, set())),
        (member(STABLE, {1}), {1, 2, 3}, {2}, None, (UNRELEASED, 6, {1, 3}, set())),
        (member(STABLE, {1}), {1, 2}, {2}, None, (UNRELEASED, 6, {1}, set())),
        # It gives back first, and stays at its epoch until it has.
        (member(STABLE, {1, 2}), {1, 3}, set(), None, (UNREVOKED, 5, {1}, {2})),
        (member(STABLE, {1, 2}), {1, 3}, set(), {T: [1, 2]}, (UNREVOKED, 5, {1}, {2})),
        (member(STABLE, {1, 2}), {1, 3}, set(), {T: [1]}, (STABLE, 6, {1, 3}, set())),
        (member(UNREVOKED, {1}, {2}), {1, 3}, set(), None, (UNREVOKED, 5, {1}, {2})),
        (member(UNREVOKED, {1}, {2}), {1, 3}, set(), {T: [1, 2]}, (UNREVOKED, 5, {1}, {2})),
        (member(UNREVOKED, {1}, {2}), {1, 3}, set(), {T: [1]}, (STABLE, 6, {1, 3}, set())),
        (member(UNREVOKED, {1}, {2}), {1, 3}, {3}, {}, (UNRELEASED, 6, {1}, set())),
        # The plan moved on meanwhile: there is more to give back, or what was given back is wanted again.
        (member(UNREVOKED, {1}, {2}), {3}, set(), {T: [1]}, (UNREVOKED, 5, set(), {1})),
        (member(UNREVOKED, {1}, {2}), {1, 2}, set(), {T: [1]}, (STABLE, 6, {1, 2}, set())),
        # It waits for what others have.
        (member(UNRELEASED, {1}), {1, 2}, {2}, None, (UNRELEASED, 6, {1}, set())),
        (member(UNRELEASED, {1}), {1, 2}, set(), None, (STABLE, 6, {1, 2}, set())),
        (member(UNRELEASED, {1}), {2}, {2}, None, (UNREVOKED, 5, set(), {1})),
        (member(UNRELEASED, {1}), {1}, set(), None, (STABLE, 6, {1}, set())),
    ],
)
def test_a_member_takes_its_next_step(
    before: ConsumerMember,
    plan: set[int],
    others: set[int],
    reported: Reported,
    after: tuple[MemberState, int, set[int], set[int]],
) -> None:
    assert shown(led(before, plan, others, reported)) == after


def test_a_member_that_has_arrived_stays_as_it_is() -> None:
    before = member(STABLE, {1})
    assert led(before, {1, 2}, set(), None, epoch=5) is before


def test_the_previous_epoch_is_the_one_it_came_from() -> None:
    assert led(member(STABLE, {1}), {1}, set(), None).previous_epoch == 5
    assert led(member(STABLE, {1}), set(), set(), None).previous_epoch == 5


def test_partitions_keep_the_epoch_at_which_they_were_given() -> None:
    assert led(member(STABLE, {1}), {1, 2}, set(), None).assigned == {T: {1: 3, 2: 6}}


@pytest.mark.parametrize(
    ("reported", "state", "assigned", "revoking"),
    [
        (None, UNREVOKED, {U: {7: 3}}, {T: {1: 3}}),
        ({T: [1], U: [7]}, UNREVOKED, {U: {7: 3}}, {T: {1: 3}}),
        ({U: [7]}, STABLE, {U: {7: 3}}, {}),
    ],
)
def test_what_it_no_longer_reads_goes_before_there_is_a_plan(
    reported: Reported, state: MemberState, assigned: object, revoking: object
) -> None:
    before = replace(member(STABLE, {1}), assigned={T: {1: 3}, U: {7: 3}})
    direction = Direction(5, {T: frozenset({1}), U: frozenset({7})}, frozenset({U}), has_new_topics=True)
    after = reconcile(before, direction, {}, reported)
    assert (after.state, after.epoch, after.assigned, after.revoking) == (state, 5, assigned, revoking)


def test_who_still_gives_back_gives_back_what_it_no_longer_reads_too() -> None:
    before = replace(member(UNREVOKED, {1}, {2}), assigned={T: {1: 3}, U: {7: 3}})
    direction = Direction(6, {}, frozenset({T}), has_new_topics=True)
    after = reconcile(before, direction, {}, {T: [1, 2], U: [7]})
    assert (after.assigned, after.revoking) == ({T: {1: 3}}, {T: {2: 3}, U: {7: 3}})
