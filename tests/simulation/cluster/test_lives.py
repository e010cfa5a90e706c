"""Clusters that live through what their seeds hold, and simulations that find the bugs planted in them."""

import pytest

from tests.simulation.cluster.__main__ import failure_text, run_many
from tests.simulation.cluster.bugs import BUGS, planted
from tests.simulation.cluster.life import live

#: Each of these shows itself within a few seeds.
OBVIOUS = ("acknowledge-at-once", "replace-without-epoch")
#: Lives in which something went wrong once.
ONCE_BROKEN = (20, 23, 39, 117, 425, 669, 1113, 1150)


@pytest.mark.parametrize("seed", [*range(12), *ONCE_BROKEN])
def test_a_cluster_keeps_its_word_whatever_befalls_it(seed: int) -> None:
    outcome = live(seed)
    assert outcome.failure is None, failure_text(outcome)


def test_the_same_seed_lives_the_same_life_and_another_a_different_one() -> None:
    first = live(5)
    again, other = live(5), live(8)
    assert first.trace == again.trace
    assert first.digest == again.digest != other.digest


@pytest.mark.parametrize("bug", OBVIOUS)
def test_an_obvious_bug_is_found_at_once(bug: str) -> None:
    with planted(bug):
        assert any(live(seed).failure for seed in range(1, 10))


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("bug", sorted(BUGS))
def test_every_planted_bug_is_found_within_two_hundred_lives(bug: str) -> None:
    assert any(outcome.failure for outcome in run_many(range(200), jobs=2, bug=bug))


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_two_thousand_clusters_keep_their_word() -> None:
    for outcome in run_many(range(2_000), jobs=2):
        assert outcome.failure is None, failure_text(outcome)
