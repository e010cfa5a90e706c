"""How a flow is slowed down."""

import pytest

from millstream.metrics.throttle import Throttle


def test_what_flowed_is_paused_for_as_long_as_it_should_have_taken() -> None:
    throttle = Throttle(lambda: 1000)
    assert throttle.wait_ms(5) == 0
    throttle.spend(500, 5)
    assert throttle.wait_ms(5) == 500
    assert throttle.wait_ms(105) == 400
    assert throttle.wait_ms(505) == 0


def test_what_was_not_used_is_not_saved_up() -> None:
    throttle = Throttle(lambda: 1000)
    throttle.spend(100, 1_000_000)
    assert throttle.wait_ms(1_000_000) == 100


@pytest.mark.parametrize("piece", [1, 100, 5000])
def test_the_average_is_the_rate_whatever_the_pieces(piece: int) -> None:
    throttle, now_ms, flowed = Throttle(lambda: 1000), 0, 0
    while now_ms < 100_000:
        wait_ms = throttle.wait_ms(now_ms)
        if wait_ms:
            now_ms += wait_ms
        else:
            throttle.spend(piece, now_ms)
            flowed += piece
    assert 95_000 <= flowed <= 105_000 + piece


def test_a_new_rate_holds_at_once() -> None:
    rate = 1000
    throttle = Throttle(lambda: rate)
    throttle.spend(10_000, 0)
    rate = 10_000
    assert throttle.wait_ms(0) == 1000


def test_a_rate_of_nothing_lets_nothing_through() -> None:
    throttle = Throttle(lambda: 0)
    throttle.spend(1, 0)
    assert throttle.wait_ms(3_600_000) > 0
