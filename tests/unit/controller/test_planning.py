"""Plans that even out a cluster."""

from collections import Counter

import pytest

from millstream.controller.placement import place
from millstream.controller.planning import plan


def spread(partitions: int, brokers: int, replicas: int) -> dict[tuple[str, int], tuple[int, ...]]:
    placed = place(dict.fromkeys(range(1, brokers + 1)), range(partitions), replicas, 0, 0)
    return {("orders", number): found for number, found in placed.items()}


def anywhere(*brokers: int) -> dict[int, str | None]:
    return dict.fromkeys(brokers)


def test_what_is_even_stays_as_it_is() -> None:
    assert plan(spread(12, 3, 2), anywhere(1, 2, 3)) == {}


def test_a_broker_that_joins_takes_its_share_and_no_more_is_copied() -> None:
    before = spread(12, 3, 3)
    changed = plan(before, anywhere(1, 2, 3, 4))
    after = {**before, **changed}
    assert Counter(broker for replicas in after.values() for broker in replicas) == {1: 9, 2: 9, 3: 9, 4: 9}
    assert Counter(replicas[0] for replicas in after.values()) == {1: 3, 2: 3, 3: 3, 4: 3}
    assert sum(len(set(replicas) - set(before[key])) for key, replicas in changed.items()) == 9


def test_a_broker_that_shall_hold_nothing_is_emptied() -> None:
    before = spread(12, 4, 2)
    changed = plan(before, anywhere(1, 2, 3))
    after = {**before, **changed}
    assert Counter(broker for replicas in after.values() for broker in replicas) == {1: 8, 2: 8, 3: 8}
    assert sum(len(set(replicas) - set(before[key])) for key, replicas in changed.items()) == 6


def test_topics_are_spread_each_by_itself() -> None:
    before = {(topic, number): (number % 2 + 1,) for topic in ("a", "b", "c", "d") for number in range(4)}
    after = {**before, **plan(before, anywhere(1, 2, 3, 4))}
    for topic in ("a", "b", "c", "d"):
        assert Counter(after[topic, number][0] for number in range(4)) == {1: 1, 2: 1, 3: 1, 4: 1}


@pytest.mark.parametrize(("factor", "moved"), [(1, 0), (2, 0), (3, 6)])
def test_the_number_of_replicas_may_change(factor: int, moved: int) -> None:
    before = spread(6, 3, 2)
    changed = plan(before, anywhere(1, 2, 3), factor)
    after = {**before, **changed}
    assert all(len(replicas) == factor for replicas in after.values())
    assert sum(len(set(replicas) - set(before[key])) for key, replicas in changed.items()) == moved


def test_replicas_of_a_partition_stand_in_different_racks() -> None:
    before = {("orders", number): (1, 2) for number in range(4)}
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    after = {**before, **plan(before, racks)}
    assert all(len({racks[broker] for broker in replicas}) == 2 for replicas in after.values())
    assert Counter(broker for replicas in after.values() for broker in replicas) == {1: 2, 2: 2, 3: 2, 4: 2}


def test_racks_that_are_known_in_part_are_no_racks() -> None:
    before = {("orders", number): (1, 2) for number in range(4)}
    assert {**before, **plan(before, {1: "a", 2: "a", 3: None})} != before


def test_leaders_are_evened_out_without_copying() -> None:
    before = {("orders", number): (1, 2, 3) for number in range(6)}
    changed = plan(before, anywhere(1, 2, 3))
    after = {**before, **changed}
    assert Counter(replicas[0] for replicas in after.values()) == {1: 2, 2: 2, 3: 2}
    assert all(set(replicas) == {1, 2, 3} for replicas in after.values())


def test_leaders_are_evened_out_along_chains() -> None:
    """2 must pass one on to 3 so that 1 can pass one on to 2."""
    placed = [(1, 2), (1, 2), (1, 2), (2, 3), (2, 3), (3, 1)]
    for topics in ("aaaaaa", "abcdef"):
        before = {
            (topic, number): replicas for number, (topic, replicas) in enumerate(zip(topics, placed, strict=True))
        }
        after = {**before, **plan(before, anywhere(1, 2, 3))}
        assert Counter(replicas[0] for replicas in after.values()) == {1: 2, 2: 2, 3: 2}


def test_a_broker_that_joins_leads_its_share_of_each_topic_and_of_all() -> None:
    """One of few partitions is even by being led anywhere, so that all of them together can be even as well."""
    before = {
        (topic, number): replicas
        for topic, partitions in (("few", 2), ("many", 50), ("orders", 12), ("single", 1))
        for (_, number), replicas in spread(partitions, 3, 3).items()
    }
    after = {**before, **plan(before, anywhere(1, 2, 3, 4))}
    leaders = Counter((topic, replicas[0]) for (topic, _), replicas in after.items())
    for topic in ("few", "many", "orders", "single"):
        counts = [leaders[topic, broker] for broker in (1, 2, 3, 4)]
        assert max(counts) - min(counts) <= 1, topic
    counts = sorted(Counter(replicas[0] for replicas in after.values()).values())
    assert counts == [16, 16, 16, 17]
    copied = sum(len(set(replicas) - set(before[key])) for key, replicas in after.items())
    assert copied == 48, "what the fourth broker gets"


def test_fewer_brokers_than_replicas_are_all_there_is() -> None:
    assert plan({("orders", 0): (1, 2, 3)}, anywhere(1, 2)) == {("orders", 0): (1, 2)}
