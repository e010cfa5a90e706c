"""Whether somebody is waiting on a broker."""

from millstream.replication.company import LINGER_S, Company
from tests.simulation.loop import ManualClock


def test_whoever_asked_is_there_for_a_moment_longer() -> None:
    clock = ManualClock()
    company = Company(clock.monotonic_s)
    assert not company.is_here()
    company.came(clock.monotonic_s())
    assert company.is_here()
    clock.advance(int(LINGER_S * 1000) - 1)
    assert company.is_here()
    clock.advance(1)
    assert not company.is_here()
