"""A connector's life: what follows what, and how it looks from outside."""

import itertools

import pytest

from millstream.pipelines.connect.runtime.lifecycle import HAS_PROCESS, Fall, Life, Order, Phase, View
from millstream.pipelines.connect.runtime.states import State, Target

PASSING = Fall("the database is away", "Traceback…", is_final=False)
LASTING = Fall("no such table", "", is_final=True)


def lived(*steps: str) -> tuple[Life, Order | None]:
    """A life after these steps, and what the last of them orders."""
    life, order = Life(), None
    for step in steps:
        match step:
            case "running":
                life, order = life.running(), None
            case "ended" | "fell":
                life, order = life.ended(PASSING)
            case "fell for good":
                life, order = life.ended(LASTING)
            case "anew":
                life, order = life.anew()
            case "waited":
                life, order = life.waited()
            case _:
                life, order = life.wanted(Target(step))
    return life, order


START = ("STARTED", "running")


@pytest.mark.parametrize(
    ("steps", "phase", "order"),
    [
        (("STARTED",), Phase.STARTING, Order.START),
        (START, Phase.RUNNING, None),
        ((*START, "STARTED"), Phase.RUNNING, None),
        ((*START, "PAUSED"), Phase.ENDING, Order.LET_GO),
        (("STARTED", "STOPPED"), Phase.ENDING, Order.KILL),
        ((*START, "PAUSED", "ended"), Phase.IDLE, None),
        ((*START, "PAUSED", "STARTED"), Phase.ENDING, None),
        ((*START, "PAUSED", "STARTED", "ended"), Phase.STARTING, Order.START),
        ((*START, "anew"), Phase.ENDING, Order.LET_GO),
        ((*START, "anew", "anew"), Phase.ENDING, None),
        ((*START, "anew", "ended"), Phase.STARTING, Order.START),
        ((*START, "fell"), Phase.WAITING, Order.WAIT),
        ((*START, "fell", "waited"), Phase.STARTING, Order.START),
        ((*START, "fell", "anew"), Phase.STARTING, Order.START),
        ((*START, "fell", "anew", "waited"), Phase.STARTING, None),
        ((*START, "fell", "PAUSED"), Phase.IDLE, None),
        ((*START, "fell", "PAUSED", "waited"), Phase.IDLE, None),
        ((*START, "fell for good"), Phase.FAILED, None),
        ((*START, "fell for good", "STARTED"), Phase.FAILED, None),
        ((*START, "fell for good", "anew"), Phase.STARTING, Order.START),
        ((*START, "fell for good", "STOPPED"), Phase.IDLE, None),
        (("PAUSED", "anew"), Phase.IDLE, None),
        (("PAUSED", "STARTED"), Phase.STARTING, Order.START),
        ((*START, "PAUSED", "running"), Phase.ENDING, None),
    ],
)
def test_what_follows_what(steps: tuple[str, ...], phase: Phase, order: Order | None) -> None:
    life, ordered = lived(*steps)
    assert (life.phase, ordered) == (phase, order)


@pytest.mark.parametrize(
    ("steps", "view"),
    [
        (("STARTED",), View(State.UNASSIGNED, State.UNASSIGNED, True)),
        (START, View(State.RUNNING, State.RUNNING, True)),
        ((*START, "PAUSED"), View(State.RUNNING, State.RUNNING, True)),
        ((*START, "PAUSED", "ended"), View(State.PAUSED, State.PAUSED, True)),
        ((*START, "STOPPED", "ended"), View(State.STOPPED, State.STOPPED, False)),
        ((*START, "anew"), View(State.RESTARTING, State.RESTARTING, True)),
        ((*START, "anew", "ended"), View(State.RESTARTING, State.RESTARTING, True)),
        ((*START, "anew", "ended", "running"), View(State.RUNNING, State.RUNNING, True)),
        ((*START, "fell"), View(State.RUNNING, State.RESTARTING, True, "", "Traceback…")),
        ((*START, "fell", "waited"), View(State.RUNNING, State.RESTARTING, True, "", "Traceback…")),
        ((*START, "fell", "waited", "running"), View(State.RUNNING, State.RUNNING, True)),
        ((*START, "fell for good"), View(State.RUNNING, State.FAILED, True, "", "no such table")),
        (("STARTED", "fell"), View(State.RESTARTING, State.RESTARTING, True, "Traceback…", "Traceback…")),
        (("STARTED", "fell for good"), View(State.FAILED, State.FAILED, True, "no such table", "no such table")),
        (("STARTED", "fell for good", "PAUSED"), View(State.PAUSED, State.PAUSED, True)),
    ],
)
def test_how_it_looks(steps: tuple[str, ...], view: View) -> None:
    assert lived(*steps)[0].view == view


def test_no_process_is_started_beside_another_and_none_is_told_to_end_that_is_not_there() -> None:
    """Every order of four steps, as far as the steps can happen at all."""
    steps = ("STARTED", "PAUSED", "STOPPED", "anew", "running", "ended", "fell for good", "waited")
    for path in itertools.product(steps, repeat=5):
        life, has_process = Life(), False
        for step in path:
            if step in ("running", "ended", "fell for good") and not has_process:
                break
            before = life
            if step == "running":
                life, order = life.running(), None
            elif step in ("ended", "fell for good"):
                life, order = life.ended(PASSING if step == "ended" else LASTING)
                has_process = False
            elif step in ("anew", "waited"):
                life, order = life.anew() if step == "anew" else life.waited()
            else:
                life, order = life.wanted(Target(step))
            assert not (order is Order.START and has_process), path
            assert not (order in (Order.LET_GO, Order.KILL) and not has_process), path
            has_process = has_process or order is Order.START
            assert has_process == (life.phase in HAS_PROCESS), path
            assert life.view.tasks in State, (before, step)
