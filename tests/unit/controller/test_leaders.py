"""Who may lead a partition that nobody leads, whatever its settings have become."""

import pytest

from millstream.controller import brokers
from millstream.controller.balance import Kind, elect_leaders
from millstream.controller.context import Context, LiveBroker, Partition, Topic
from millstream.controller.interface import NO_LEADER, ControllerSettings
from millstream.controller.loading import _enter
from millstream.controller.reassignment import Move, reassign
from millstream.controller.requests import Decision
from millstream.model.ids import TopicPartition
from millstream.registry.nodes import PARTITION_STATE, BrokerRegistration, Endpoint, PartitionState
from millstream.registry.tree import Node

KEY = TopicPartition("orders", 0)
#: Broker 1 was in sync alone while two had to be, and 2 has all that was committed.
LED = PartitionState(1, 5, (1,), 1, eligible=(2,))
LEADERLESS = PartitionState(NO_LEADER, 6, (1,), 1, eligible=(2,), last_known=1)
#: Meanwhile one replica in sync is enough.
LOWERED = ControllerSettings(min_in_sync=lambda topic: 1)


def known(state: PartitionState, *live: int) -> Context:
    """A partition of brokers 1 and 2, of which 2 is the preferred leader, as the registry holds it."""
    context = Context(9, 1, 1)
    partition = Partition((2, 1))
    context.add_topic(Topic(KEY.topic, bytes(range(16)), partitions={0: partition}))
    context.brokers = {number: broker(number) for number in live}
    _enter(context, KEY, partition, Node(PARTITION_STATE.encode(state), 3, 0, 0, 0, 0))
    return context


def broker(number: int, *, is_clean: bool = True) -> LiveBroker:
    return LiveBroker(number, number, BrokerRegistration((Endpoint("PLAINTEXT", "here", 1),), is_clean=is_clean))


def outcome(context: Context, decision: Decision) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """The leader, who is in sync and who is eligible once it is carried out."""
    for change in decision.changes:
        context.replay(change)
    state = context.topics[KEY.topic].partitions[0].state
    assert state is not None and not state.is_recovering
    return state.leader, state.isr, state.eligible


def test_fewer_that_must_be_in_sync_strike_nobody_from_a_partition_whose_leader_is_gone() -> None:
    context = known(LED, 3)
    assert outcome(context, brokers.brokers_went(context, {1}, LOWERED)) == (NO_LEADER, (1,), (2,))
    assert outcome(context, brokers.take_over(context, LOWERED)) == (NO_LEADER, (1,), (2,))


def test_whoever_is_eligible_leads_when_it_comes_though_fewer_must_be_in_sync_by_now() -> None:
    context = known(LEADERLESS, 2, 3)
    assert outcome(context, brokers.brokers_came(context, {2}, LOWERED)) == (2, (2,), ())


@pytest.mark.parametrize("state", [LED, LEADERLESS])
def test_a_new_controller_has_whoever_is_eligible_lead_though_fewer_must_be_in_sync_by_now(
    state: PartitionState,
) -> None:
    context = known(state, 2, 3)
    assert outcome(context, brokers.take_over(context, LOWERED)) == (2, (2,), ())


def test_one_that_may_have_lost_records_does_not_lead() -> None:
    context = known(LEADERLESS, 3)
    context.brokers[2] = broker(2, is_clean=False)
    assert outcome(context, brokers.brokers_came(context, {2}, LOWERED)) == (NO_LEADER, (1,), ())


def test_a_forced_election_finds_whoever_has_everything_though_fewer_must_be_in_sync_by_now() -> None:
    context = known(LEADERLESS, 2, 3)
    decision, _ = elect_leaders(context, Kind.UNCLEAN, [KEY], LOWERED)
    assert outcome(context, decision) == (2, (2,), ())


def test_a_move_away_from_a_leader_that_is_gone_waits_for_whoever_is_eligible() -> None:
    context = known(LEADERLESS, 3, 4)
    decision, _ = reassign(context, [Move(KEY, (2, 3))], LOWERED)
    assert outcome(context, decision) == (NO_LEADER, (1,), (2,))


def test_under_a_live_leader_fewer_that_must_be_in_sync_strike_whoever_is_not() -> None:
    context = known(LED, 1, 3)
    two = ControllerSettings(min_in_sync=lambda topic: 2)
    assert outcome(context, brokers.take_over(context, two)) == (1, (1,), (2,))
    assert outcome(context, brokers.topic_changed(context, KEY.topic, LOWERED)) == (1, (1,), ())
