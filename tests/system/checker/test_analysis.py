"""Each thing the checker looks for is found where it is, and nowhere else."""

import pytest

from tests.system.checker.analysis import CHECKS, History, anomalies
from tests.system.checker.history import Ended, Event, Fate, Polled, Sent


def sent(number: int, fate: Fate = "ok", transaction: str | None = None) -> Sent:
    return Sent(f"v{number}", 0, fate, number if fate == "ok" else -1, transaction)


def polled(*offsets: int, consumer: str = "a", session: int = 0) -> Polled:
    return Polled(consumer, session, tuple((0, offset, f"v{offset}") for offset in offsets))


#: Three records, one of them in a transaction, read by two members one after the other.
GOOD: list[Event] = [
    sent(0),
    sent(1, transaction="t"),
    Ended("t", "ok"),
    sent(2),
    polled(0, 1),
    polled(1, 2, consumer="b"),
]
FINAL = polled(0, 1, 2, consumer="final")


def found(events: list[Event], final: Polled = FINAL) -> set[str]:
    return {anomaly.name for anomaly in anomalies(History(events, final))}


def test_a_history_as_it_should_be_has_nothing() -> None:
    assert found(GOOD) == set()


def test_a_write_nobody_heard_back_of_may_be_there_or_not() -> None:
    assert found([*GOOD, sent(7, "unknown")]) == set()
    assert found([*GOOD, Sent("v3", 0, "unknown"), polled(3, consumer="c")], polled(0, 1, 2, 3)) == set()


BAD: dict[str, tuple[list[Event], Polled]] = {
    "lost write": ([*GOOD, sent(3)], FINAL),
    "duplicate": (
        [*GOOD, Polled("c", 0, ((0, 3, "v2"),))],
        Polled("final", 0, (*FINAL.records, (0, 3, "v2"))),
    ),
    "inconsistent offset": ([*GOOD, Polled("c", 0, ((0, 1, "other"),))], FINAL),
    "aborted read": ([*GOOD, sent(3, transaction="u"), Ended("u", "failed"), polled(3, consumer="c")], FINAL),
    "poll skip": ([*GOOD, polled(0, 2, consumer="c")], FINAL),
    "non-monotonic poll": ([*GOOD, polled(1, consumer="c"), polled(0, consumer="c")], FINAL),
    "unseen": (GOOD[:-1], FINAL),
}


def test_every_check_has_a_history_it_finds_fault_with() -> None:
    assert BAD.keys() == CHECKS.keys()


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_found(name: str) -> None:
    assert found(*BAD[name]) == {name}


def test_a_consumer_may_go_back_and_forth_between_sessions() -> None:
    assert found([*GOOD, polled(2, consumer="c"), polled(0, consumer="c", session=1)]) == set()


def test_skipping_what_was_aborted_is_no_skip() -> None:
    assert (
        found([*GOOD, sent(3, transaction="u"), Ended("u", "failed"), polled(2, 4, consumer="c")], polled(0, 1, 2, 4))
        == set()
    )
