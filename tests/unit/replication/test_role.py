"""Who leads, who follows, and how far everyone has come."""

import pytest

from millstream.replication.role import TRANSITIONS, Leadership, Part, Role


def led(leader: int, epoch: int, isr: tuple[int, ...] = (1, 2, 3), partition_epoch: int = 0) -> Leadership:
    return Leadership(1, leader, epoch, isr, partition_epoch, (1, 2, 3))


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
    role.note_end(2, 10)
    role.note_end(3, 4)
    assert role.high_watermark(0, 10) == 4
    assert not role.follow(led(1, epoch=5, isr=(1, 2), partition_epoch=1))
    assert role.high_watermark(4, 10) == 10
    assert role.is_stale(led(1, epoch=5, partition_epoch=0))


def test_a_follower_not_heard_of_holds_the_watermark() -> None:
    role = Role(1)
    role.follow(led(1, epoch=5))
    role.note_end(2, 10)
    assert role.high_watermark(7, 10) == 7


def test_the_watermark_never_goes_back() -> None:
    role = Role(1)
    role.follow(led(1, epoch=5))
    role.note_end(2, 3)
    role.note_end(3, 3)
    assert role.high_watermark(7, 10) == 7


def test_alone_in_sync_the_watermark_is_the_end() -> None:
    role = Role(1)
    role.follow(led(1, epoch=0, isr=(1,)))
    assert role.high_watermark(0, 42) == 42


@pytest.mark.parametrize("part", list(Part))
def test_every_part_has_its_row_in_the_table(part: Part) -> None:
    assert part in TRANSITIONS


def test_an_idle_replica_cannot_retire() -> None:
    with pytest.raises(AssertionError):
        Role(1).retire()
