"""Commits, aborts, time-outs, and the markers that carry them out."""

import pytest

from millstream.coordination.transactions.endings import LOOK_AFTER_MS, RETRY_AFTER_MAX_MS
from millstream.coordination.transactions.events import MarkersDue, MarkersWritten, TransactionTimedOut
from millstream.coordination.transactions.states import State
from millstream.model.errors import ErrorCode
from millstream.model.ids import TopicPartition
from tests.unit.coordination.transactions.desk import TV1, TV2, Desk

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def begun(desk: Desk, *partitions: str, timeout_ms: int = 60_000) -> tuple[int, int]:
    producer = desk.made("t", timeout_ms=timeout_ms)
    for partition in partitions or ("a-0",):
        assert desk.write("t", producer, partition, partition) is ErrorCode.NONE
    return producer


@pytest.mark.parametrize("version", [TV1, TV2])
@pytest.mark.parametrize("committed", [True, False])
def test_an_end_reaches_every_partition(desk: Desk, version: int, committed: bool) -> None:
    producer = begun(desk, "a-0", "a-1")
    following = (1000, 1) if version == TV2 else producer
    assert desk.end("t", producer, committed, version) == following
    assert desk.state("t") is (State.COMPLETE_COMMIT if committed else State.COMPLETE_ABORT)
    assert desk["t"].client == following
    assert desk.replicas[A0].outcomes == [("a-0", committed)]
    assert desk.replicas[A1].outcomes == [("a-1", committed)]


def test_an_end_is_answered_before_the_partitions_know(desk: Desk) -> None:
    producer = begun(desk)
    desk.holds_markers = True
    assert desk.end("t", producer, True) == (1000, 1)
    assert desk.state("t") is State.PREPARE_COMMIT
    assert desk.end("t", producer, True) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert desk.end("t", producer, False) is ErrorCode.INVALID_TXN_STATE
    assert desk.end("t", (1000, 1), False) is ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("committed", [True, False])
def test_the_same_end_asked_again_is_answered_again(desk: Desk, committed: bool) -> None:
    producer = begun(desk)
    following = desk.end("t", producer, committed)
    assert desk.end("t", producer, committed) == following
    assert desk.end("t", producer, not committed) is ErrorCode.INVALID_TXN_STATE
    desk.restart()
    assert desk.end("t", producer, committed) == following


@pytest.mark.parametrize("committed", [True, False])
def test_before_version_2_the_epoch_stays_and_the_state_tells_what_was_asked_again(desk: Desk, committed: bool) -> None:
    producer = begun(desk)
    desk.holds_markers = True
    assert desk.end("t", producer, committed, TV1) == producer
    assert desk.end("t", producer, committed, TV1) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert desk.end("t", producer, not committed, TV1) is ErrorCode.INVALID_TXN_STATE
    desk.release()
    assert desk.end("t", producer, committed, TV1) == producer
    assert desk.end("t", producer, not committed, TV1) is ErrorCode.INVALID_TXN_STATE


def test_a_late_end_never_hits_a_later_transaction(desk: Desk) -> None:
    producer = begun(desk)
    following = desk.end("t", producer, True)
    assert isinstance(following, tuple)
    desk.write("t", following, "a-0", "later")
    for committed in (True, False):
        assert desk.end("t", producer, committed) is ErrorCode.PRODUCER_FENCED
    assert desk.state("t") is State.ONGOING


def test_a_late_end_of_a_transaction_that_was_aborted_instead_is_not_taken_for_a_later_commit(desk: Desk) -> None:
    """The producer speaks version 1 by then: that its epoch is one above proves nothing."""
    producer = begun(desk)
    assert desk.init("t", producer) is ErrorCode.CONCURRENT_TRANSACTIONS
    again = desk.made("t", producer=producer)
    desk.write("t", again, "a-0", "later")
    assert desk.end("t", again, True, TV1) == again
    assert desk.end("t", producer, True) is ErrorCode.PRODUCER_FENCED


def test_only_the_producer_in_force_ends(desk: Desk) -> None:
    begun(desk)
    for version in (TV1, TV2):
        assert desk.end("", (1000, 0), True, version) is ErrorCode.INVALID_REQUEST
        assert desk.end("unknown", (1000, 0), True, version) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert desk.end("t", (7, 0), True, version) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert desk.end("t", (1000, 1), True, version) is ErrorCode.PRODUCER_FENCED


def test_a_transaction_to_which_nothing_was_added_can_be_aborted_under_version_2(desk: Desk) -> None:
    producer = desk.made("t")
    assert desk.end("t", producer, False) == (1000, 1)
    assert desk.state("t") is State.COMPLETE_ABORT
    assert desk.end("t", producer, False) == (1000, 1)
    assert desk.end("t", (1000, 1), False) == (1000, 2)
    assert desk.write("t", (1000, 2), "a-0", "next") is ErrorCode.NONE
    assert desk.end("t", (1000, 2), True) == (1000, 3)
    assert desk.end("t", (1000, 3), False) == (1000, 4)


def test_a_transaction_to_which_nothing_was_added_cannot_be_committed(desk: Desk) -> None:
    producer = desk.made("t")
    for version, committed in ((TV1, True), (TV1, False), (TV2, True)):
        assert desk.end("t", producer, committed, version) is ErrorCode.INVALID_TXN_STATE
    following = desk.end("t", producer, False)
    assert isinstance(following, tuple)
    assert desk.end("t", following, True) is ErrorCode.INVALID_TXN_STATE


def test_the_last_epochs_end_brings_a_new_id(desk: Desk) -> None:
    desk.made("t")
    desk.machine.transactions["t"] = desk["t"]._replace(producer_epoch=32766)
    last = (1000, 32766)
    desk.write("t", last, "a-0", "last")
    desk.holds_markers = True
    assert desk.end("t", last, True) == (1001, 0)
    assert desk.held[0][1:3] == (1000, 32767)
    assert desk.end("t", last, True) is ErrorCode.CONCURRENT_TRANSACTIONS
    desk.release()
    desk.restart()
    assert desk.end("t", last, True) == (1001, 0)
    assert desk.end("t", last, False) is ErrorCode.INVALID_TXN_STATE
    assert desk.add("t", (1001, 0), "a-0") is ErrorCode.NONE


# Time-outs.


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(desk: Desk) -> None:
    producer = begun(desk, timeout_ms=500)
    desk.pass_time(499)
    assert desk.state("t") is State.ONGOING
    desk.pass_time(1)
    assert desk.state("t") is State.COMPLETE_ABORT
    assert desk.replicas[A0].outcomes == [("a-0", False)]
    assert desk.write("t", producer, "a-0", "late") is ErrorCode.PRODUCER_FENCED
    assert desk.end("t", producer, True) is ErrorCode.INVALID_TXN_STATE
    assert desk.end("t", producer, False) == (1000, 1)
    assert desk.reports


def test_the_timer_of_a_transaction_that_ended_does_not_hit_the_next(desk: Desk) -> None:
    producer = begun(desk, timeout_ms=500)
    start_ms = desk["t"].start_ms
    desk.pass_time(400)
    following = desk.end("t", producer, True)
    assert isinstance(following, tuple)
    desk.write("t", following, "a-0", "next")
    desk.tell(TransactionTimedOut("t", start_ms, 500))
    desk.pass_time(499)
    assert desk.state("t") is State.ONGOING
    desk.pass_time(1)
    assert desk.state("t") is State.COMPLETE_ABORT


def test_a_timer_of_an_id_that_is_gone_does_nothing(desk: Desk) -> None:
    desk.tell(TransactionTimedOut("gone", 0, 500))
    desk.tell(MarkersDue("gone", 0, 0))
    desk.tell(MarkersWritten("gone", 0, 0, {}))
    assert desk.log == []


def test_after_a_restart_ongoing_transactions_have_the_time_that_is_left(desk: Desk) -> None:
    begun(desk, timeout_ms=500)
    desk.pass_time(300)
    desk.restart()
    desk.pass_time(199)
    assert desk.state("t") is State.ONGOING
    desk.pass_time(1)
    assert desk.state("t") is State.COMPLETE_ABORT


def test_a_coordinator_whose_clock_is_behind_gives_no_transaction_more_time_than_it_asked_for(desk: Desk) -> None:
    begun(desk, timeout_ms=500)
    desk.now_ms -= 3_600_000
    desk.restart()
    desk.pass_time(499)
    assert desk.state("t") is State.ONGOING
    desk.pass_time(1)
    assert desk.state("t") is State.COMPLETE_ABORT


# Markers.


def test_markers_that_fail_are_tried_again_until_every_partition_has_its_own(desk: Desk) -> None:
    producer = begun(desk, "a-0", "a-1")
    desk.faults[A1] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    desk.end("t", producer, True)
    desk.pass_time(5_000)
    assert desk.state("t") is State.PREPARE_COMMIT
    desk.holds_markers = True
    desk.pass_time(RETRY_AFTER_MAX_MS)
    assert {order.partitions for order in desk.held} == {frozenset({A1})}, "the other has its marker"
    desk.faults.clear()
    desk.release()
    assert desk.state("t") is State.COMPLETE_COMMIT


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_partition_that_is_gone_or_past_it_needs_no_marker(desk: Desk, code: ErrorCode) -> None:
    producer = begun(desk, "a-0", "a-1")
    desk.faults[A1] = code
    desk.end("t", producer, True)
    assert desk.state("t") is State.COMPLETE_COMMIT


def test_a_coordinator_that_was_replaced_leaves_the_rest_to_the_other(desk: Desk) -> None:
    producer = begun(desk)
    desk.faults[A0] = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    desk.end("t", producer, True)
    assert desk.state("t") is State.PREPARE_COMMIT
    desk.faults.clear()
    desk.restart()
    assert desk.state("t") is State.COMPLETE_COMMIT


def test_an_order_nobody_reports_on_is_given_again(desk: Desk) -> None:
    producer = begun(desk)
    desk.holds_markers = True
    desk.end("t", producer, True)
    (lost,) = desk.held
    desk.held.clear()
    desk.pass_time(LOOK_AFTER_MS)
    assert desk.held == [lost]


def test_the_echo_of_an_older_order_does_not_complete_a_later_transaction(desk: Desk) -> None:
    producer = begun(desk)
    desk.holds_markers = True
    desk.end("t", producer, True)
    echo = desk.write_markers(desk.held[0])
    desk.release()
    desk.write("t", (1000, 1), "a-0", "next")
    desk.end("t", (1000, 1), False)
    desk.tell(echo)
    assert desk.state("t") is State.PREPARE_ABORT
    desk.tell(MarkersDue("t", 1000, 1))
    assert len(desk.held) == 1


@pytest.mark.parametrize("committed", [True, False])
def test_after_a_restart_what_was_decided_is_carried_out(desk: Desk, committed: bool) -> None:
    producer = begun(desk)
    desk.holds_markers = True
    desk.end("t", producer, committed)
    desk.held.clear()
    desk.holds_markers = False
    desk.restart()
    assert desk.state("t") is (State.COMPLETE_COMMIT if committed else State.COMPLETE_ABORT)
    assert desk.replicas[A0].outcomes == [("a-0", committed)]


def test_orders_carry_the_coordinators_epoch_and_the_version_of_transactions(desk: Desk) -> None:
    desk.restart()
    producer = begun(desk)
    desk.holds_markers = True
    desk.end("t", producer, True, TV1)
    assert desk.held[0] == ("t", *producer, True, 1, 0, frozenset({A0}))
    desk.release()
    desk.write("t", producer, "a-0", "next")
    desk.end("t", producer, True, TV2)
    assert desk.held[0][5] == 2
