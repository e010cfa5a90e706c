"""Where a follower stands, what it does after each answer, and where it cuts a log that went astray."""

import pytest

from millstream.model.errors import ErrorCode
from millstream.replication.following.place import (
    AFTER_REFUSAL,
    TRANSITIONS,
    Cut,
    EpochEnd,
    Place,
    Position,
    Restart,
    State,
    cut_for,
)


def place(offset: int = 10, last_epoch: int = 3) -> Place:
    return Place(Position(4, offset, last_epoch), backoff_ms_max=1_000)


@pytest.mark.parametrize("state", list(State))
def test_every_state_has_its_row_in_the_table(state: State) -> None:
    assert state in TRANSITIONS


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (ErrorCode.OFFSET_OUT_OF_RANGE, State.ASTRAY),
        (ErrorCode.FENCED_LEADER_EPOCH, State.FAILED),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, State.DELAYED),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, State.DELAYED),
        (ErrorCode.UNKNOWN_TOPIC_ID, State.DELAYED),
        (ErrorCode.KAFKA_STORAGE_ERROR, State.DELAYED),
        (ErrorCode.UNKNOWN_SERVER_ERROR, State.DELAYED),
    ],
)
def test_each_refusal_leads_somewhere(code: ErrorCode, state: State) -> None:
    here = place()
    here.refused(code, 0)
    assert here.state is state
    assert AFTER_REFUSAL.get(code, State.DELAYED) is state


def test_delays_grow_until_something_goes_well() -> None:
    here = place()
    now_ms, waits = 0, []
    for _ in range(8):
        here.delay(now_ms)
        waits.append(here.due_ms - now_ms)
        assert not here.resume(here.due_ms - 1)
        now_ms = here.due_ms
        assert here.resume(now_ms)
    assert waits == [20, 40, 80, 160, 320, 640, 1_000, 1_000]
    assert here.moved(11, 4)
    here.delay(0)
    assert here.due_ms == 20


def test_whoever_was_astray_before_a_delay_is_so_after_it() -> None:
    here = place()
    here.refused(ErrorCode.OFFSET_OUT_OF_RANGE, 0)
    here.delay(0)
    assert here.resume(here.due_ms)
    assert here.state is State.ASTRAY


def test_an_answer_counts_only_where_it_was_asked_from() -> None:
    here = place()
    assert here.is_answered_by(Position(4, 10, 3))
    assert not here.is_answered_by(Position(3, 10, 3)), "another leader was asked"
    assert not here.is_answered_by(None)
    here.moved(12, 4)
    assert not here.is_answered_by(Position(4, 10, 3)), "it has been appended already"
    here.delay(0)
    assert not here.is_answered_by(Position(4, 12, 4))


def test_nothing_but_the_controllers_word_helps_one_that_failed() -> None:
    here = place()
    here.fail()
    assert not here.resume(10**9)
    here.fail()


def test_one_that_rests_may_fail_meanwhile() -> None:
    """Its disk does, when what it has copied is flushed."""
    here = place()
    here.delay(100)
    here.fail()
    assert not here.resume(10**9)


@pytest.mark.parametrize(
    ("start", "end", "step"),
    [
        (0, 7, Cut(7)),  # The leader's log is shorter.
        (12, 20, Restart(12)),  # What comes next is gone there.
        (0, 20, None),  # It was out of range when we asked, and is no longer.
        (10, 10, None),
    ],
)
def test_out_of_range_is_made_good(start: int, end: int, step: Cut | Restart | None) -> None:
    here = place()
    here.refused(ErrorCode.OFFSET_OUT_OF_RANGE, 0)
    assert here.bounded(start, end) == step
    assert here.state is State.FETCHING


@pytest.mark.parametrize(
    ("leaders", "own", "cut"),
    [
        (EpochEnd(3, 8), EpochEnd(3, 10), 8),  # Both have the epoch, the leader less of it.
        (EpochEnd(3, 30), EpochEnd(3, 9), 9),  # We have more epochs after it than the leader.
        (EpochEnd(3, 30), EpochEnd(2, 6), 6),  # The leader's was never here: the one before is asked about next.
        (EpochEnd(3, 7), EpochEnd(-1, -1), 7),  # Nothing is known of epochs here.
        (EpochEnd(3, 30), EpochEnd(3, 30), 10),  # Never beyond our own end.
    ],
)
def test_a_log_is_cut_where_epochs_tell_that_it_left_the_leaders(leaders: EpochEnd, own: EpochEnd, cut: int) -> None:
    assert cut_for(leaders, own, own_end=10) == Cut(cut)
