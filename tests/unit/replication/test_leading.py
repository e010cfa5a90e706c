"""What a leader makes of its followers' fetches: the watermark, and who is in sync."""

import pytest

from millstream.model.errors import ErrorCode
from millstream.replication.leading import BACKOFF_MS, Leading, Proposal, Pulse

LAG_MS = 30_000


def leading(isr: tuple[int, ...] = (1, 2, 3), *, start: int = 0) -> Leading:
    return Leading(1, (1, 2, 3), isr, start, 0, ())


def propose(leader: Leading, *, watermark: int = 0, end: int = 0, now_ms: int = 0) -> Proposal | None:
    return leader.propose(5, 7, 100, watermark, end, now_ms, LAG_MS, 1)


def members(proposal: Proposal | None) -> list[int] | None:
    return None if proposal is None else [replica for replica, _ in proposal.isr]


# The watermark.


def test_the_watermark_is_the_lowest_end_of_those_in_sync() -> None:
    leader = leading(isr=(1, 2))
    leader.followers[2].fetched(7, 10, 0)
    leader.followers[3].fetched(3, 10, 0)
    assert leader.high_watermark(0, 10, 1) == 7


def test_a_follower_not_heard_of_holds_the_watermark() -> None:
    leader = leading()
    leader.followers[2].fetched(10, 10, 0)
    assert leader.high_watermark(7, 10, 1) == 7


def test_the_watermark_never_goes_back() -> None:
    leader = leading()
    for follower in leader.followers.values():
        follower.fetched(3, 10, 0)
    assert leader.high_watermark(7, 10, 1) == 7


@pytest.mark.parametrize(("min_insync", "watermark"), [(1, 10), (2, 4), (3, 4), (5, 4)])
def test_with_fewer_in_sync_than_asked_for_the_watermark_stays(min_insync: int, watermark: int) -> None:
    assert leading(isr=(1,)).high_watermark(4, 10, min_insync) == watermark


def test_no_more_replicas_are_asked_for_than_there_are() -> None:
    leader = Leading(1, (1, 2), (1, 2), 0, 0, ())
    leader.followers[2].fetched(10, 10, 0)
    assert leader.high_watermark(4, 10, 3) == 10


# Who lags.


def test_a_follower_that_always_has_what_was_there_at_its_last_fetch_does_not_lag() -> None:
    follower = leading().followers[2]
    for at in range(100):
        follower.fetched(end=at * 10, leader_end=at * 10 + 10, now_ms=at * 1_000)
    assert not follower.is_behind(1_000, 99_000 + LAG_MS - 1_000, LAG_MS)
    assert follower.is_behind(1_000, 99_000 + LAG_MS, LAG_MS)


def test_a_follower_that_gains_no_ground_lags() -> None:
    leader = leading()
    leader.followers[3].fetched(50, 50, 0)
    for at in range(40):
        leader.followers[2].fetched(end=at, leader_end=at + 10, now_ms=at * 1_000)
    assert leader.laggards(50, 39_000, LAG_MS) == [2], "the other has all there is"
    assert leader.laggards(51, 39_000, LAG_MS) == [2, 3]


def test_a_quiet_partition_makes_nobody_lag_when_it_grows_again() -> None:
    leader = leading(isr=(1, 2))
    follower = leader.followers[2]
    follower.pulse = Pulse()
    follower.fetched(10, 10, 0)
    follower.pulse.ms = 99_000  # It fetches other partitions of the session all the time.
    follower.left_behind(10)
    assert leader.laggards(11, 99_000 + LAG_MS, LAG_MS) == []
    assert leader.laggards(11, 99_001 + LAG_MS, LAG_MS) == [2]
    follower.pulse.ms = 200_000
    follower.left_behind(11)
    assert leader.laggards(12, 200_000, LAG_MS) == [2], "it had not caught up when the log grew again"


def test_a_new_leader_gives_those_in_sync_their_time() -> None:
    leader = leading(isr=(1, 2))
    assert leader.laggards(1, LAG_MS, LAG_MS) == []
    assert leader.laggards(1, LAG_MS + 1, LAG_MS) == [2]


# Proposals.


def test_a_follower_joins_at_the_watermark_and_no_earlier_than_the_terms_start() -> None:
    leader = leading(isr=(1, 2), start=8)
    leader.followers[2].fetched(10, 10, 0)
    leader.followers[3].broker_epoch = 42
    for end, is_in in ((7, False), (8, True), (9, True)):
        leader.followers[3].fetched(end, 10, 0)
        assert leader.may_join(3, 8) is is_in
    leader.followers[3].fetched(7, 10, 0)
    assert propose(leader, watermark=5, end=10) is None
    leader.followers[3].fetched(8, 10, 0)
    assert propose(leader, watermark=9, end=10) is None
    assert propose(leader, watermark=8, end=10) == (5, 7, ((1, 100), (2, -1), (3, 42)))


def test_until_its_fate_is_known_the_watermark_waits_for_one_that_may_join() -> None:
    leader = leading(isr=(1, 2))
    leader.followers[2].fetched(10, 10, 0)
    leader.followers[3].fetched(6, 10, 0)
    proposal = propose(leader, watermark=5, end=10)
    assert proposal is not None
    assert leader.high_watermark(5, 10, 1) == 6
    leader.refused(proposal, ErrorCode.NOT_CONTROLLER, 0)
    assert leader.high_watermark(6, 10, 1) == 6, "there is no telling what the controller did"
    assert propose(leader, watermark=6, end=10) is None, "it is too soon"
    as_it_is = propose(leader, watermark=6, end=10, now_ms=BACKOFF_MS)
    assert members(as_it_is) == [1, 2]
    assert as_it_is is not None
    leader.refused(as_it_is, ErrorCode.INELIGIBLE_REPLICA, BACKOFF_MS)
    assert leader.high_watermark(6, 10, 1) == 6, "the first may still be on its way"


def test_one_that_was_refused_is_waited_for_no_more() -> None:
    leader = leading(isr=(1, 2))
    leader.followers[2].fetched(10, 10, 0)
    leader.followers[3].fetched(6, 10, 0)
    proposal = propose(leader, watermark=5, end=10)
    assert proposal is not None
    leader.refused(proposal, ErrorCode.INELIGIBLE_REPLICA, 0)
    assert leader.high_watermark(6, 10, 1) == 10
    assert members(propose(leader, watermark=5, end=10, now_ms=BACKOFF_MS)) == [1, 2, 3]


def test_one_that_may_have_joined_and_is_gone_is_asked_after() -> None:
    leader = leading(isr=(1, 2))
    leader.followers[2].fetched(10, 10, 0)
    leader.followers[3].fetched(6, 10, 0)
    lost = propose(leader, watermark=5, end=10)
    assert lost is not None
    leader.refused(lost, ErrorCode.REQUEST_TIMED_OUT, 0)
    leader.followers[2].fetched(10, 10, LAG_MS + 1)
    asked = propose(leader, watermark=6, end=10, now_ms=LAG_MS + 1)
    assert members(asked) == [1, 2]
    assert asked is not None
    assert leader.granted(asked, (1, 2), LAG_MS + 1, ())
    assert leader.high_watermark(6, 10, 1) == 10


def test_while_one_leaves_the_watermark_still_waits_for_it() -> None:
    leader = leading()
    leader.followers[2].fetched(10, 10, LAG_MS + 1)
    leader.followers[3].fetched(4, 10, 0)
    proposal = propose(leader, watermark=4, end=10, now_ms=LAG_MS + 1)
    assert members(proposal) == [1, 2]
    assert proposal is not None
    assert leader.high_watermark(4, 10, 1) == 4
    assert leader.granted(proposal, (1, 2), LAG_MS + 1, ())
    assert leader.high_watermark(4, 10, 1) == 10


def test_one_proposal_is_under_way_at_a_time() -> None:
    leader = leading(isr=(1,))
    leader.followers[2].fetched(5, 5, 0)
    first = propose(leader, end=5)
    leader.followers[3].fetched(5, 5, 0)
    assert members(first) == [1, 2]
    assert propose(leader, end=5) is None
    assert first is not None
    assert leader.granted(first, (1, 2), 0, ())
    assert members(propose(leader, end=5)) == [1, 2, 3]


def test_one_that_may_not_join_keeps_nobody_from_leaving() -> None:
    leader = leading(isr=(1, 2))
    leader.followers[3].fetched(10, 10, LAG_MS + 1)
    assert members(propose(leader, watermark=3, end=10, now_ms=LAG_MS + 1)) == [1]


def test_one_that_joins_has_its_time_to_catch_up() -> None:
    leader = leading(isr=(1, 2))
    leader.followers[2].fetched(10, 10, LAG_MS)
    leader.followers[3].fetched(5, 10, LAG_MS)
    proposal = propose(leader, watermark=5, end=10, now_ms=LAG_MS)
    assert members(proposal) == [1, 2, 3]
    assert proposal is not None
    assert leader.granted(proposal, (1, 2, 3), LAG_MS, ())
    assert propose(leader, watermark=5, end=10, now_ms=2 * LAG_MS) is None
    assert members(propose(leader, watermark=5, end=10, now_ms=2 * LAG_MS + 1)) == [1, 2]


def test_one_that_fell_silent_is_not_proposed() -> None:
    leader = leading(isr=(1, 2))
    leader.followers[2].fetched(10, 10, LAG_MS + 1)
    leader.followers[3].fetched(10, 10, 0)
    assert propose(leader, watermark=3, end=10, now_ms=LAG_MS + 1) is None
    leader.followers[3].pulse.ms = 1
    assert members(propose(leader, watermark=3, end=10, now_ms=LAG_MS + 1)) == [1, 2, 3]


def test_refusals_come_rarer_the_more_there_are() -> None:
    leader = leading(isr=(1, 2))
    leader.followers[3].fetched(0, 0, 0)
    waits, now_ms = [], 0
    for _ in range(8):
        proposal = propose(leader, now_ms=now_ms)
        assert proposal is not None
        leader.refused(proposal, ErrorCode.INELIGIBLE_REPLICA, now_ms)
        waits.append(leader.due_ms() - now_ms)
        now_ms = leader.due_ms()
    assert waits == [100, 200, 400, 800, 1600, 3200, 5000, 5000]


def test_acknowledgements_count_those_in_sync_for_certain_and_the_outcome_those_that_may_be() -> None:
    leader = leading(isr=(1, 2))
    leader.followers[3].fetched(0, 0, 0)
    assert leader.maximal_isr_size == 2
    assert propose(leader) is not None
    assert (len(leader.isr), leader.maximal_isr_size) == (2, 3)


def test_nothing_is_committed_while_others_are_eligible_until_the_controller_has_struck_them() -> None:
    leader = Leading(1, (1, 2, 3), (1,), 10, 0, eligible=(2,))
    assert leader.high_watermark(10, 12, 1) == 10
    assert leader.propose(5, 7, 100, 10, 12, 0, LAG_MS, min_insync=2) is None, "too few are in sync all the same"
    asked = leader.propose(5, 7, 100, 10, 12, 0, LAG_MS, min_insync=1)
    assert asked is not None
    assert asked.isr == ((1, 100),)
    assert leader.high_watermark(10, 12, 1) == 10, "it was only asked for"
    assert leader.granted(asked, (1,), 0, eligible=())
    assert leader.high_watermark(10, 12, 1) == 12
    assert leader.propose(5, 8, 100, 12, 12, 0, LAG_MS, min_insync=1) is None


def test_who_must_be_struck_is_so_without_those_who_would_join() -> None:
    """One who may not join would have the whole proposal refused, again and again."""
    leader = Leading(1, (1, 2, 3), (1,), 0, 0, eligible=(2,))
    leader.followers[3].fetched(5, 0, 0)
    strike = propose(leader, watermark=0, end=5)
    assert members(strike) == [1]
    assert strike is not None
    assert leader.granted(strike, (1,), 0, ())
    assert members(propose(leader, watermark=5, end=5)) == [1, 3]


def test_who_is_eligible_by_another_word_of_the_controller_counts() -> None:
    leader = Leading(1, (1, 2, 3), (1, 2), 10, 0, ())
    leader.told((1, 2, 3), (1,), 0, eligible=(2,))
    assert leader.high_watermark(10, 12, 1) == 10
    leader.told((1, 2, 3), (1,), 0, ())
    assert leader.high_watermark(10, 12, 1) == 12
