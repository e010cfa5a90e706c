"""Who leads, who follows, and what the controller's word changes."""

from dataclasses import replace

import pytest

from millstream.replication.role import TRANSITIONS, Leadership, Part, Role


def led(
    leader: int,
    epoch: int,
    isr: tuple[int, ...] = (1, 2, 3),
    partition_epoch: int = 0,
    replicas: tuple[int, ...] = (1, 2, 3),
) -> Leadership:
    return Leadership(1, leader, epoch, isr, partition_epoch, replicas)


def test_a_newer_epoch_is_followed_and_an_older_one_is_stale() -> None:
    role = Role(1)
    parts = []
    for told in (led(1, epoch=5), led(2, epoch=6)):
        assert not role.is_stale(told)
        assert role.follow(told)
        parts.append(role.part)
    assert parts == [Part.LEADER, Part.FOLLOWER]
    assert role.is_stale(led(2, epoch=4))


def test_the_same_epoch_with_a_newer_isr_keeps_what_followers_have() -> None:
    role = Role(1)
    role.follow(led(1, epoch=5))
    assert role.leading is not None
    role.leading.followers[2].fetched(10, 10, 0)
    role.leading.followers[3].fetched(4, 10, 0)
    assert role.leading.high_watermark(0, 10, 1) == 4
    assert not role.follow(led(1, epoch=5, isr=(1, 2), partition_epoch=1))
    assert role.leading.high_watermark(4, 10, 1) == 10
    assert role.is_stale(led(1, epoch=5, partition_epoch=0))


def test_a_new_epoch_of_the_same_leader_forgets_what_followers_had() -> None:
    role = Role(1)
    role.follow(led(1, epoch=5))
    before = role.leading
    assert role.follow(led(1, epoch=6))
    assert role.leading is not before
    assert role.term == 0, "it never ceased to lead"


def test_whoever_ceases_to_lead_begins_another_term() -> None:
    role = Role(1)
    role.follow(led(1, epoch=5))
    role.follow(led(2, epoch=6))
    role.follow(led(1, epoch=7))
    assert role.term == 1
    role.retire()
    assert role.term == 2


def test_a_partition_without_other_replicas_has_nobody_to_wait_for() -> None:
    role = Role(1)
    role.follow(led(1, epoch=0, isr=(1,), replicas=(1,)))
    assert role.leading is None
    role.follow(led(1, epoch=0, isr=(1,), partition_epoch=1, replicas=(1, 2)))
    assert role.leading is not None


def test_what_is_told_again_leaves_a_proposal_open_and_what_is_new_settles_it() -> None:
    role = Role(1)
    role.follow(led(1, epoch=5, isr=(1, 2)))
    assert role.leading is not None
    role.leading.followers[3].fetched(0, 0, 0)
    proposal = role.leading.propose(5, 0, 9, 0, 0, 0, 100, 1)
    assert proposal is not None
    role.follow(led(1, epoch=5, isr=(1, 2)))
    assert role.leading.maybe == {1, 2, 3}
    role.follow(led(1, epoch=5, isr=(1, 2), partition_epoch=1))
    assert role.leading.maybe == set()
    assert not role.granted(proposal, (1, 2, 3), 2, 0, ()), "it is out of date"


def test_a_grant_is_the_new_leadership() -> None:
    role = Role(1)
    role.follow(led(1, epoch=5, isr=(1, 2)))
    assert role.leading is not None
    role.leading.followers[3].fetched(0, 0, 0)
    proposal = role.leading.propose(5, 0, 9, 0, 0, 0, 100, 1)
    assert proposal is not None
    assert role.granted(proposal, (1, 2, 3), 1, 0, ())
    assert (role.leadership.isr, role.leadership.partition_epoch, role.others_in_sync) == ((1, 2, 3), 1, (2, 3))


def test_who_is_eligible_counts_also_where_it_was_left_out_before() -> None:
    """A controller of an older release says nothing of it; the next one tells the same state again."""
    role = Role(1)
    role.follow(led(1, epoch=5, isr=(1,)))
    role.follow(replace(led(1, epoch=5, isr=(1,)), eligible=(2,)))
    assert role.leading is not None
    assert role.leading.eligible == role.leadership.eligible == (2,)


@pytest.mark.parametrize("part", list(Part))
def test_every_part_has_its_row_in_the_table(part: Part) -> None:
    assert part in TRANSITIONS


def test_a_replica_that_never_had_a_part_may_be_told_to_stop() -> None:
    role = Role(1)
    role.retire()
    assert (role.part, role.term) == (Part.IDLE, 0)
