"""How long a loop stays awake after an answer."""

from collections import deque
from collections.abc import Callable
from typing import Any, cast

from millstream.net.vigil import LOOKS_MAX, PATIENCE, RETRY_AFTER, WATCH_S, Vigil

#: How long a turn of the loop takes here, so that some fit into a watch.
TURN_S = WATCH_S / 10.5
WATCH_TURNS = 11


class Turns:
    """A loop's ready callbacks, run a turn at a time, and its clock."""

    def __init__(self, turn_s: float = TURN_S) -> None:
        self.ready: deque[Callable[[], None]] = deque()
        self._now_s = 0.0
        self._turn_s = turn_s

    def now_s(self) -> float:
        return self._now_s

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.ready.append(callback)

    def run(self, turns: int = 1_000) -> int:
        """Run so many turns, or until the loop may sleep; how many it took."""
        for turn in range(turns):
            if not self.ready:
                return turn
            self._now_s += self._turn_s
            self.ready.popleft()()
        return turns


def a_vigil(turn_s: float = TURN_S) -> tuple[Vigil, Turns]:
    turns = Turns(turn_s)
    return Vigil(cast("Any", turns), turns.now_s), turns


def ask_again(vigil: Vigil, turns: Turns) -> None:
    """A request comes, a turn after the answer before it, and is answered."""
    turns.run(1)
    vigil.asked_s = turns.now_s()
    vigil.answered()


def watch_in_vain(vigil: Vigil, turns: Turns) -> None:
    vigil.answered()
    turns.run()


def test_after_an_answer_the_loop_looks_for_the_next_request_and_then_sleeps() -> None:
    vigil, turns = a_vigil()
    vigil.answered()
    assert turns.run() == WATCH_TURNS


def test_it_sleeps_though_time_stands_still() -> None:
    vigil, turns = a_vigil(turn_s=0)
    vigil.answered()
    assert turns.run() == LOOKS_MAX


def test_an_answer_meanwhile_begins_the_watch_anew() -> None:
    vigil, turns = a_vigil()
    vigil.answered()
    turns.run(WATCH_TURNS - 1)
    vigil.answered()
    assert turns.run() == WATCH_TURNS


def test_answers_in_one_turn_are_watched_for_together() -> None:
    vigil, turns = a_vigil()
    vigil.answered()
    vigil.answered()
    assert len(turns.ready) == 1


def test_a_loop_that_watches_in_vain_sleeps_at_once() -> None:
    vigil, turns = a_vigil()
    for _ in range(PATIENCE):
        watch_in_vain(vigil, turns)
    vigil.answered()
    assert turns.run() == 0


def test_it_is_tried_again_after_a_while_and_goes_on_where_it_pays() -> None:
    vigil, turns = a_vigil()
    for _ in range(PATIENCE + RETRY_AFTER - 1):
        watch_in_vain(vigil, turns)
    vigil.answered()
    assert turns.run(1) == 1, "one watch is tried"
    for _ in range(PATIENCE):
        ask_again(vigil, turns)
    turns.run()
    vigil.answered()
    assert turns.run() == WATCH_TURNS


def test_a_trial_in_vain_is_the_only_one() -> None:
    vigil, turns = a_vigil()
    for _ in range(PATIENCE + RETRY_AFTER):
        watch_in_vain(vigil, turns)
    vigil.answered()
    assert turns.run() == 0


def test_a_watch_that_pays_every_other_time_goes_on() -> None:
    vigil, turns = a_vigil()
    for _ in range(10 * PATIENCE):
        vigil.answered()
        ask_again(vigil, turns)
        assert turns.run() == WATCH_TURNS


def test_several_answers_to_one_request_are_nobody_who_asks_again() -> None:
    vigil, turns = a_vigil()
    for _ in range(PATIENCE):
        vigil.asked_s = turns.now_s()
        for _ in range(3):
            vigil.answered()
            turns.run(1)
        turns.run()
    vigil.answered()
    assert turns.run() == 0
