"""Plans for any cluster: even, spread over racks, and no longer than they must be."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from millstream.controller.planning import plan

Placement = dict[tuple[str, int], tuple[int, ...]]


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Placement, dict[int, str | None]]:
    brokers = draw(st.lists(st.integers(1, 9), min_size=1, max_size=6, unique=True))
    racks: dict[int, str | None] = {broker: draw(st.sampled_from(["a", "b", "c"])) for broker in brokers}
    if draw(st.booleans()):
        racks = dict.fromkeys(brokers)
    placement = draw(
        st.dictionaries(
            st.tuples(st.sampled_from(["x", "y"]), st.integers(0, 9)),
            st.lists(st.integers(1, 9), min_size=1, max_size=4, unique=True).map(tuple),
            max_size=14,
        )
    )
    return placement, racks


@given(clusters())
def test_every_partition_has_its_replicas_on_the_brokers_allowed(
    cluster: tuple[Placement, dict[int, str | None]],
) -> None:
    placement, racks = cluster
    after = {**placement, **plan(placement, racks)}
    for key, replicas in after.items():
        assert len(replicas) == len(set(replicas)) == min(len(placement[key]), len(racks))
        assert set(replicas) <= racks.keys()
        known = None not in racks.values()
        if known:
            assert len({racks[broker] for broker in replicas}) == min(len(replicas), len(set(racks.values())))


@given(clusters())
def test_a_plan_that_was_carried_out_needs_no_other(cluster: tuple[Placement, dict[int, str | None]]) -> None:
    placement, racks = cluster
    after = {**placement, **plan(placement, racks)}
    assert plan(after, racks) == {}


@given(clusters())
def test_without_racks_every_broker_has_its_share(cluster: tuple[Placement, dict[int, str | None]]) -> None:
    placement, racks = cluster
    brokers: dict[int, str | None] = dict.fromkeys(racks)
    after = {**placement, **plan(placement, brokers)}
    held = Counter(broker for replicas in after.values() for broker in replicas)
    counts = [held[broker] for broker in brokers]
    assert max(counts) - min(counts) <= 1
    led = Counter(replicas[0] for replicas in after.values())
    if all(len(replicas) == len(brokers) for replicas in after.values()):
        assert max(led[broker] for broker in brokers) - min(led[broker] for broker in brokers) <= 1
        for topic in {topic for topic, _ in after}:
            own = Counter(replicas[0] for (name, _), replicas in after.items() if name == topic)
            assert max(own[broker] for broker in brokers) - min(own[broker] for broker in brokers) <= 1


@given(clusters())
def test_without_racks_no_more_is_copied_than_must_be(cluster: tuple[Placement, dict[int, str | None]]) -> None:
    """A broker keeps what it has up to its share; only what it has beyond, or what was lost, is copied."""
    placement, racks = cluster
    brokers: dict[int, str | None] = dict.fromkeys(racks)
    after = {**placement, **plan(placement, brokers)}
    copied = sum(len(set(after[key]) - set(placement[key])) for key in placement)
    held = Counter(broker for replicas in placement.values() for broker in replicas if broker in brokers)
    total = sum(map(len, after.values()))
    share, rest = divmod(total, len(brokers))
    counts = sorted((held[broker] for broker in brokers), reverse=True)
    kept = sum(min(count, share + (nth < rest)) for nth, count in enumerate(counts))
    assert copied <= total - kept + max(map(len, after.values()), default=0)
