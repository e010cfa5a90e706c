from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from millstream.controller.placement import alternate, place

#: Kafka's own example: six brokers on three racks.
RACKS = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}


def test_replicas_go_round_as_kafka_places_them() -> None:
    """The table of Kafka's AdminZkClientTest."""
    assert place(dict.fromkeys(range(5)), range(10), 3, start=0, shift=0) == {
        0: (0, 1, 2),
        1: (1, 2, 3),
        2: (2, 3, 4),
        3: (3, 4, 0),
        4: (4, 0, 1),
        5: (0, 2, 3),
        6: (1, 3, 4),
        7: (2, 4, 0),
        8: (3, 0, 1),
        9: (4, 1, 2),
    }


def test_brokers_are_taken_from_the_racks_in_turn() -> None:
    assert alternate(RACKS) == [0, 3, 1, 5, 4, 2]


def test_replicas_are_spread_over_racks_as_kafka_spreads_them() -> None:
    """The table in the comment above Kafka's assignReplicasToBrokers."""
    assert place(RACKS, range(12), 3, start=0, shift=0) == {
        0: (0, 3, 1),
        1: (3, 1, 5),
        2: (1, 5, 4),
        3: (5, 4, 2),
        4: (4, 2, 0),
        5: (2, 0, 3),
        6: (0, 4, 2),
        7: (3, 2, 0),
        8: (1, 0, 3),
        9: (5, 3, 1),
        10: (4, 1, 5),
        11: (2, 5, 4),
    }


def test_racks_known_in_part_are_not_used() -> None:
    assert place({0: "a", 1: "a", 2: None}, range(3), 2, 0, 0) == place(dict.fromkeys(range(3)), range(3), 2, 0, 0)


def test_one_broker_takes_all() -> None:
    assert place({7: None}, range(3), 1, 0, 0) == {0: (7,), 1: (7,), 2: (7,)}


@given(st.data())
def test_replicas_differ_leaders_are_even_and_racks_are_used_before_any_comes_twice(data: st.DataObject) -> None:
    brokers = data.draw(st.lists(st.integers(0, 99), min_size=1, max_size=9, unique=True))
    racks = {broker: data.draw(st.sampled_from("xyz")) for broker in brokers}
    factor = data.draw(st.integers(1, len(brokers)))
    first = data.draw(st.integers(0, 20))
    count = data.draw(st.integers(1, 40))
    start, shift = (data.draw(st.integers(0, len(brokers) - 1)) for _ in range(2))
    placed = place(racks, range(first, first + count), factor, start, shift)

    assert list(placed) == list(range(first, first + count))
    for replicas in placed.values():
        assert len(set(replicas)) == factor
        used = Counter(racks[replica] for replica in replicas)
        assert len(used) == min(factor, len(set(racks.values())))
    leaders = Counter(replicas[0] for replicas in placed.values())
    assert max(leaders.values()) - min(leaders.get(broker, 0) for broker in brokers) <= 1
