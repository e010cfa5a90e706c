"""Whether somebody is waiting on a broker."""

from millstream.replication.company import LINGER_S, STAY_S, Company
from tests.simulation.loop import ManualClock

LINGER_MS, STAY_MS = round(LINGER_S * 1000), round(STAY_S * 1000) + 1


def test_whoever_asks_again_and_again_is_there_for_a_moment_longer() -> None:
    clock = ManualClock()
    company = Company(clock.monotonic_s)
    assert not company.is_here()
    _ask(company, clock, STAY_MS)
    assert company.is_here()
    clock.advance(LINGER_MS - 1)
    assert company.is_here()
    clock.advance(1)
    assert not company.is_here()


def test_whoever_only_looks_in_is_no_company_however_often() -> None:
    clock = ManualClock()
    company = Company(clock.monotonic_s)
    for _ in range(5):
        _ask(company, clock, STAY_MS - 2)
        assert not company.is_here()
        clock.advance(LINGER_MS)


def test_others_are_those_who_asked_a_moment_ago_and_are_not_oneself() -> None:
    clock = ManualClock()
    company = Company(clock.monotonic_s)
    one, other = object(), object()
    assert not company.has_others(one)
    company.came(clock.monotonic_s(), one)
    assert not company.has_others(one)
    assert company.has_others(other)
    company.came(clock.monotonic_s(), other)
    assert company.has_others(one)
    company.came(clock.monotonic_s(), one)
    assert company.has_others(one), "the other was here just before"
    clock.advance(int(LINGER_S * 1000) + 1)
    company.came(clock.monotonic_s(), one)
    assert not company.has_others(one), "nobody else has asked since"
    assert company.has_others(other)


def _ask(company: Company, clock: ManualClock, during_ms: int) -> None:
    """Ask every millisecond and at the end of that time."""
    for _ in range(during_ms):
        company.came(clock.monotonic_s())
        clock.advance(1)
    company.came(clock.monotonic_s())
