import pytest

from millstream.controller import elections, partition_states, replica_states
from millstream.controller.context import Context, LiveBroker
from millstream.controller.elections import Elected
from millstream.controller.interface import ControllerSettings
from millstream.controller.leaders import min_in_sync
from millstream.controller.partition_states import Phase
from millstream.controller.replica_states import ReplicaPhase
from millstream.model.ids import TopicPartition
from millstream.registry.nodes import BrokerRegistration, Endpoint


def test_a_new_partition_is_led_by_its_first_live_replica_and_all_live_ones_are_in_sync() -> None:
    assert elections.initial((1, 2, 3), {2, 3}) == Elected(2, (2, 3))
    assert elections.initial((1, 2), {3}) is None


def test_a_lost_leader_is_followed_by_the_first_live_replica_in_sync() -> None:
    assert elections.offline((1, 2, 3), (3, 2, 1), {2, 3}) == Elected(2, (3, 2))
    assert elections.offline((1, 2, 3), (3,), {2, 3}) == Elected(3, (3,))


def test_nobody_outside_the_in_sync_set_leads_unless_allowed() -> None:
    assert elections.offline((1, 2, 3), (1,), {2, 3}) is None
    unclean = elections.offline((1, 2, 3), (1,), {2, 3}, is_unclean_allowed=True)
    assert unclean == Elected(2, (2,), is_unclean=True)
    assert elections.offline((1, 2, 3), (1,), set(), is_unclean_allowed=True) is None


def test_an_allowed_unclean_election_is_clean_where_it_can_be() -> None:
    assert elections.offline((1, 2, 3), (3,), {2, 3}, is_unclean_allowed=True) == Elected(3, (3,))


def test_the_preferred_leader_is_the_first_replica_or_nobody() -> None:
    assert elections.preferred((1, 2), (2, 1), {1, 2}) == Elected(1, (2, 1))
    assert elections.preferred((1, 2), (2,), {1, 2}) is None
    assert elections.preferred((1, 2), (1, 2), {2}) is None


def test_a_broker_that_leaves_is_followed_by_one_that_stays() -> None:
    assert elections.controlled_shutdown((1, 2, 3), (1, 2, 3), {1, 2, 3}, {1, 2}) == Elected(3, (3,))
    assert elections.controlled_shutdown((1, 2), (1,), {1, 2}, {1}) is None


@pytest.mark.parametrize("before", Phase)
@pytest.mark.parametrize("after", Phase)
def test_a_partition_enters_only_what_its_table_allows(before: Phase, after: Phase) -> None:
    if after in partition_states.TRANSITIONS[before]:
        assert partition_states.entered(before, after) is after
    else:
        with pytest.raises(AssertionError, match="cannot become"):
            partition_states.entered(before, after)


@pytest.mark.parametrize("before", ReplicaPhase)
@pytest.mark.parametrize("after", ReplicaPhase)
def test_a_replica_enters_only_what_its_table_allows(before: ReplicaPhase, after: ReplicaPhase) -> None:
    if after in replica_states.TRANSITIONS[before]:
        assert replica_states.entered(before, after) is after
    else:
        with pytest.raises(AssertionError, match="cannot become"):
            replica_states.entered(before, after)


def test_whoever_left_when_nothing_could_be_committed_leads_where_nobody_is_in_sync() -> None:
    assert elections.offline((1, 2, 3), (1,), {2, 3}, eligible=(3,)) == Elected(3, (3,))
    assert elections.offline((1, 2, 3), (1,), {2}, eligible=(3,)) is None
    assert elections.offline((1, 2, 3), (2,), {2, 3}, eligible=(3,)) == Elected(2, (2,)), "in sync comes first"


def test_whoever_led_last_leads_again_once_nobody_is_known_to_have_more() -> None:
    assert elections.offline((1, 2), (), {1, 2}, last_known=2) == Elected(2, (2,), is_unclean=True)
    assert elections.offline((1, 2), (), {1}, last_known=2) is None
    assert elections.offline((1, 2), (1,), {2}, last_known=2) is None
    assert elections.offline((1, 2, 3), (), {2}, eligible=(3,), last_known=2) is None
    assert elections.offline((1, 2), (), {3}, last_known=3) is None, "its replica was moved away"


def test_a_replica_alone_has_all_there_is_when_it_comes_back() -> None:
    assert elections.offline((1,), (), {1}, last_known=1) == Elected(1, (1,))


def test_who_leaves_stays_eligible_only_while_nothing_can_be_committed() -> None:
    assert elections.eligible_after((1, 2, 3), (1, 2), 2) == ()
    assert elections.eligible_after((1, 2, 3), (1,), 2) == (2, 3)
    assert elections.eligible_after((1, 2, 3), (1,), 2, unclean={3}) == (2,)
    assert elections.eligible_after((1, 2), (), 1) == (1, 2)


@pytest.mark.parametrize(
    ("topic", "brokers", "told", "replicas", "expected"),
    [
        (2, (1, 1), None, (1, 2, 3), 2),  # A topic's own value is everybody's.
        (None, (2, 2), None, (1, 2, 3), 2),
        (None, (2, 1), None, (1, 2, 3), 1),  # Whoever leads by less commits by less.
        (None, (2, 2), 1, (1, 2, 3), 1),
        (None, (), None, (1, 2, 3), 1),
        (3, (1, 1), None, (1, 2), 2),  # No more than there are.
    ],
)
def test_as_many_must_be_in_sync_as_the_least_careful_leader_asks(
    topic: int | None, brokers: tuple[int, ...], told: int | None, replicas: tuple[int, ...], expected: int
) -> None:
    context = Context(1, 1, 1)
    context.brokers = {
        number: LiveBroker(number, 1, BrokerRegistration((Endpoint("PLAINTEXT", "here", 1),), min_in_sync=least))
        for number, least in enumerate(brokers)
    }
    settings = ControllerSettings(min_in_sync=lambda name: topic, min_in_sync_told=lambda: told)
    assert min_in_sync(context, settings, TopicPartition("orders", 0), replicas) == expected
