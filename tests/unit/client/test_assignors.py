"""How a leader shares partitions out."""

from millstream.client.assignors import Assignments, assign_in_turn, assign_ranges


def shares(assignments: Assignments) -> dict[str, list[str]]:
    return {member: [str(tp) for tp in partitions] for member, partitions in assignments.items()}


def test_ranges_are_consecutive_and_the_first_members_take_what_is_left_over() -> None:
    subscriptions = {"b": ["t"], "a": ["t"]}
    assert shares(assign_ranges(subscriptions, {"t": 5})) == {"a": ["t-0", "t-1", "t-2"], "b": ["t-3", "t-4"]}


def test_each_topic_has_ranges_of_its_own_among_those_who_want_it() -> None:
    subscriptions = {"a": ["t", "u"], "b": ["u"], "c": ["gone"]}
    assert shares(assign_ranges(subscriptions, {"t": 2, "u": 2, "unwanted": 4})) == {
        "a": ["t-0", "t-1", "u-0"],
        "b": ["u-1"],
        "c": [],
    }


def test_members_that_are_too_many_have_nothing() -> None:
    subscriptions = {"a": ["t"], "b": ["t"]}
    assert shares(assign_ranges(subscriptions, {"t": 1})) == {"a": ["t-0"], "b": []}
    assert shares(assign_in_turn(subscriptions, {"t": 1})) == {"a": ["t-0"], "b": []}


def test_partitions_go_round_over_all_topics() -> None:
    subscriptions = {"a": ["t", "u"], "b": ["t", "u"]}
    assert shares(assign_in_turn(subscriptions, {"t": 3, "u": 2})) == {
        "a": ["t-0", "t-2", "u-1"],
        "b": ["t-1", "u-0"],
    }


def test_whoever_does_not_want_a_topic_is_passed_over() -> None:
    subscriptions = {"a": ["t"], "b": ["t", "u"], "c": ["u"]}
    assert shares(assign_in_turn(subscriptions, {"t": 3, "u": 3, "unwanted": 2})) == {
        "a": ["t-0", "t-2"],
        "b": ["t-1", "u-0", "u-2"],
        "c": ["u-1"],
    }
