"""Assignors: everything is assigned once, to who reads it, evenly, and no more is moved than must be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.coordination.groups.consumer.assignors import ASSIGNORS
from millstream.coordination.groups.consumer.assignors.share import PartitionCounts, Shares, Subscriber, Subscribers

Partition = tuple[bytes, int]

TOPICS = [bytes([number]) * 16 for number in range(5)]
counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 12), min_size=1)


def flat(share: dict[bytes, frozenset[int]]) -> set[Partition]:
    return {(topic_id, partition) for topic_id, partitions in share.items() for partition in partitions}


def readers_of(members: Subscribers, topic_id: bytes) -> list[str]:
    return [member_id for member_id, member in members.items() if topic_id in member.topic_ids]


@st.composite
def groups(draw: st.DrawFn, *, is_mixed: bool, members_max: int = 8) -> tuple[Subscribers, PartitionCounts]:
    """Members that read topics, and what a random history may have left them with: nothing twice."""
    widths = draw(counts)
    names = [f"m{number}" for number in range(draw(st.integers(1, members_max)))]
    all_ids = frozenset(widths)
    subsets = st.frozensets(st.sampled_from(sorted(widths)))
    topic_ids = {name: draw(subsets) if is_mixed else all_ids for name in names}
    plans: dict[str, dict[bytes, set[int]]] = {name: {} for name in names}
    # Also partitions and topics that are no more.
    for topic_id in [*widths, b"gone" * 4]:
        for partition in range(widths.get(topic_id, 1) + 1):
            owner = draw(st.sampled_from([*names, None]))
            if owner is not None:
                plans[owner].setdefault(topic_id, set()).add(partition)
    instances = draw(st.permutations([*(f"i{number}" for number in range(len(names))), *[None] * len(names)]))
    members = {
        name: Subscriber(
            instances[number],
            topic_ids[name],
            {topic_id: frozenset(partitions) for topic_id, partitions in plans[name].items()},
        )
        for number, name in enumerate(names)
    }
    read = frozenset().union(*topic_ids.values())
    return members, {topic_id: width for topic_id, width in widths.items() if topic_id in read}


def check_complete(members: Subscribers, widths: PartitionCounts, shares: Shares) -> None:
    """Every partition that anybody reads has one owner, who reads it."""
    assigned = [each for share in shares.values() for each in flat(share)]
    assert sorted(assigned) == sorted((topic_id, each) for topic_id, width in widths.items() for each in range(width))
    for member_id, share in shares.items():
        assert share.keys() <= members[member_id].topic_ids
        assert all(share.values())


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(group=st.booleans().flatmap(lambda is_mixed: groups(is_mixed=is_mixed)))
def test_everything_is_assigned_once_to_who_reads_it(name: str, group: tuple[Subscribers, PartitionCounts]) -> None:
    members, widths = group
    check_complete(members, widths, ASSIGNORS[name](members, widths))


@given(group=groups(is_mixed=False))
def test_members_that_read_the_same_have_equally_many_and_keep_what_they_may(
    group: tuple[Subscribers, PartitionCounts],
) -> None:
    members, widths = group
    shares = ASSIGNORS["uniform"](members, widths)
    sizes = [len(flat(share)) for share in shares.values()]
    assert max(sizes) - min(sizes) <= 1
    least, extras = divmod(sum(widths.values()), len(members))
    had = {
        member_id: {each for each in flat(dict(member.plan)) if each[1] < widths.get(each[0], 0)}
        for member_id, member in members.items()
    }
    # As many are kept as any even plan could keep: up to the quota each, one more for as many as there are extras.
    keepable = sum(min(len(each), least) for each in had.values())
    keepable += min(extras, sum(len(each) > least for each in had.values()))
    assert sum(len(had[member_id] & flat(share)) for member_id, share in shares.items()) == keepable


@given(group=groups(is_mixed=True, members_max=5))
def test_no_single_move_makes_a_mixed_group_more_even(group: tuple[Subscribers, PartitionCounts]) -> None:
    members, widths = group
    shares = ASSIGNORS["uniform"](members, widths)
    loads = {member_id: len(flat(shares.get(member_id, {}))) for member_id in members}
    for member_id, share in shares.items():
        for topic_id in share:
            for other in readers_of(members, topic_id):
                assert loads[member_id] - loads[other] <= 1


@given(group=groups(is_mixed=True))
def test_a_plan_that_is_good_stays(group: tuple[Subscribers, PartitionCounts]) -> None:
    members, widths = group
    first = ASSIGNORS["uniform"](members, widths)
    again = {member_id: member._replace(plan=first.get(member_id, {})) for member_id, member in members.items()}
    second = ASSIGNORS["uniform"](again, widths)
    assert {member_id: flat(share) for member_id, share in second.items()} == {
        member_id: flat(share) for member_id, share in first.items()
    }


@given(group=groups(is_mixed=True))
def test_ranges_are_those_of_the_textbook(group: tuple[Subscribers, PartitionCounts]) -> None:
    members, widths = group
    shares = ASSIGNORS["range"](members, widths)
    order = sorted(members, key=lambda each: (members[each].instance_id is None, members[each].instance_id or each))
    for topic_id, width in widths.items():
        readers = [each for each in order if topic_id in members[each].topic_ids]
        least, extras = divmod(width, len(readers))
        begin = 0
        for number, member_id in enumerate(readers):
            end = begin + least + (number < extras)
            assert shares[member_id].get(topic_id, frozenset()) == frozenset(range(begin, end))
            begin = end
