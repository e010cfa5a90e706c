"""How long a pipeline that fell waits before it is started again."""

import pytest

from millstream.pipelines.running.restarts import Restarts


def waits(restarts: Restarts, falls: int, chance: float) -> list[float | None]:
    """Fall so many times in a row, with nothing done in between."""
    found = []
    for _ in range(falls):
        restarts.started()
        found.append(restarts.fell(0.0, chance))
    return found


def test_each_wait_is_twice_the_one_before_up_to_the_cap() -> None:
    assert waits(Restarts(first_s=1.0, cap_s=10.0), 6, chance=1.0) == [1, 2, 4, 8, 10, 10]


def test_chance_leaves_between_a_half_and_all_of_a_wait() -> None:
    assert waits(Restarts(first_s=2.0), 2, chance=0.0) == [1, 2]
    assert waits(Restarts(first_s=2.0), 2, chance=0.5) == [1.5, 3]


def test_a_thousand_falls_still_have_a_wait() -> None:
    assert waits(Restarts(cap_s=60.0), 1000, chance=1.0)[-1] == 60


def test_enough_falls_in_a_row_are_enough() -> None:
    assert waits(Restarts(falls_max=2), 3, chance=1.0) == [1, 2, None]
    assert waits(Restarts(falls_max=0), 1, chance=1.0) == [None]


@pytest.mark.parametrize(("well_s", "wait_s"), [(59.9, 4), (60.0, 1)])
def test_a_run_that_was_well_for_long_enough_wipes_the_slate(well_s: float, wait_s: float) -> None:
    restarts = Restarts(first_s=1.0, healthy_s=60.0)
    waits(restarts, 2, chance=1.0)
    restarts.started()
    restarts.progressed(1000.0)
    restarts.progressed(1030.0)
    assert restarts.fell(1000.0 + well_s, 1.0) == wait_s


def test_a_run_that_hangs_without_getting_anything_done_is_not_well() -> None:
    restarts = Restarts(first_s=1.0, healthy_s=60.0)
    restarts.started()
    restarts.progressed(0.0)
    restarts.fell(1.0, 1.0)
    restarts.started()
    assert restarts.fell(100_000.0, 1.0) == 2
