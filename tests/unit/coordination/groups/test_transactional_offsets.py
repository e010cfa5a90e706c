"""Offsets committed in transactions: pending until the marker, and overtaken by whatever was written after them."""

import pytest

from millstream.coordination.decision import Decision, Producer, Question
from millstream.coordination.groups.classic.group import ClassicGroup
from millstream.coordination.groups.machine import GroupMachine
from millstream.coordination.groups.settings import GroupSettings
from millstream.model.errors import ErrorCode, ProtocolError
from tests.unit.coordination.groups.offsets import (
    BY_NAME,
    codes,
    commit,
    committed,
    delete,
    group_stage,
    old_fetch,
    txn_commit,
)

PLACE = ("orders", 0)
UNSTABLE = {"orders-0": "UNSTABLE_OFFSET_COMMIT"}


def test_an_offset_is_pending_until_its_transaction_commits() -> None:
    stage = group_stage()
    stage.ask(commit("g", {PLACE: 1}), BY_NAME)
    assert codes(stage.ask(txn_commit("g", {PLACE: 5}))) == [ErrorCode.NONE]
    assert committed(stage, "g", PLACE) == {"orders-0": 1}
    assert committed(stage, "g", PLACE, is_stable=True) == UNSTABLE
    assert committed(stage, "g", is_stable=True) == UNSTABLE
    stage.end_transaction(7, is_commit=True)
    assert committed(stage, "g", PLACE, is_stable=True) == {"orders-0": 5}


def test_an_abort_leaves_what_was() -> None:
    stage = group_stage()
    stage.ask(commit("g", {PLACE: 1}), BY_NAME)
    stage.ask(txn_commit("g", {PLACE: 5, ("audit", 0): 6}))
    stage.end_transaction(7, is_commit=False)
    assert committed(stage, "g", is_stable=True) == {"orders-0": 1}


def test_the_records_are_written_in_the_producers_transaction() -> None:
    stage = group_stage()
    question = Question(txn_commit("g", {PLACE: 5}), 5, "client", "/host", ticket=1)
    decision: Decision = stage.machine.decide(question, stage.now_ms)
    assert decision.producer == Producer(7, 0)
    assert len(decision.records) == 1


def test_a_stable_read_before_version_8_says_so_too() -> None:
    stage = group_stage()
    stage.ask(txn_commit("g", {PLACE: 5}))
    (topic,) = stage.ask(old_fetch("g", PLACE, is_stable=True), 7).topics
    assert topic.partitions[0].error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT


def test_a_plain_commit_after_a_pending_one_wins() -> None:
    stage = group_stage()
    stage.ask(txn_commit("g", {PLACE: 5}))
    stage.ask(commit("g", {PLACE: 9}), BY_NAME)
    assert committed(stage, "g", PLACE, is_stable=True) == UNSTABLE
    stage.end_transaction(7, is_commit=True)
    assert committed(stage, "g", PLACE, is_stable=True) == {"orders-0": 9}


def test_of_two_transactions_the_one_that_wrote_later_wins() -> None:
    stage = group_stage()
    stage.ask(txn_commit("g", {PLACE: 5}, producer_id=1))
    stage.ask(txn_commit("g", {PLACE: 6}, producer_id=2))
    stage.end_transaction(2, is_commit=True)
    assert committed(stage, "g", PLACE) == {"orders-0": 6}
    assert committed(stage, "g", PLACE, is_stable=True) == UNSTABLE
    stage.end_transaction(1, is_commit=True)
    assert committed(stage, "g", PLACE, is_stable=True) == {"orders-0": 6}


def test_a_transaction_that_commits_twice_keeps_its_last() -> None:
    stage = group_stage()
    stage.ask(txn_commit("g", {PLACE: 5}, producer_id=1))
    stage.ask(txn_commit("g", {PLACE: 6}, producer_id=2))
    stage.ask(txn_commit("g", {PLACE: 7}, producer_id=1))
    stage.end_transaction(1, is_commit=True)
    stage.end_transaction(2, is_commit=True)
    assert committed(stage, "g") == {"orders-0": 7}


def test_a_marker_of_a_producer_that_wrote_nothing_here_changes_nothing() -> None:
    stage = group_stage()
    stage.ask(commit("g", {PLACE: 1}), BY_NAME)
    stage.end_transaction(99, is_commit=True)
    assert committed(stage, "g") == {"orders-0": 1}


def test_deleting_an_offset_deletes_what_is_pending() -> None:
    stage = group_stage()
    stage.ask(txn_commit("g", {PLACE: 5}))
    stage.ask(delete("g", PLACE))
    assert [record.value for record in stage.records] == [None]
    stage.end_transaction(7, is_commit=True)
    assert committed(stage, "g") == {}


def test_a_pending_offset_does_not_expire_and_keeps_its_group() -> None:
    stage = group_stage(settings=GroupSettings(offsets_retention_ms=10, offsets_retention_check_interval_ms=20))
    stage.ask(commit("g", {PLACE: 1}), BY_NAME)
    stage.ask(txn_commit("g", {PLACE: 5}))
    stage.ask(txn_commit("h", {PLACE: 5}))
    stage.advance(100)
    assert committed(stage, "g") == {"orders-0": 1}
    assert isinstance(stage.machine, GroupMachine)
    assert set(stage.machine.groups) == {"g", "h"}
    stage.end_transaction(7, is_commit=False)
    stage.advance(100)
    assert stage.machine.groups == {}


def test_a_group_must_be_named() -> None:
    assert group_stage().refusal(txn_commit("", {PLACE: 1})) is ErrorCode.INVALID_GROUP_ID


def test_a_generation_of_an_unknown_group_is_illegal() -> None:
    request = txn_commit("g", {PLACE: 1, ("nothing", 0): 1}, generation_id=3, member_id="m")
    assert codes(group_stage().ask(request)) == [
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_a_stale_epoch_is_told_as_an_illegal_generation(monkeypatch: pytest.MonkeyPatch) -> None:
    def stale(*_: object, **__: object) -> None:
        raise ProtocolError(ErrorCode.STALE_MEMBER_EPOCH)

    stage = group_stage()
    stage.ask(commit("g", {PLACE: 1}), BY_NAME)
    monkeypatch.setattr(ClassicGroup, "check_commit", stale)
    assert codes(stage.ask(txn_commit("g", {PLACE: 1}))) == [ErrorCode.ILLEGAL_GENERATION]


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_pending_offset_is_pending_after_a_restart(is_commit: bool) -> None:
    stage = group_stage()
    stage.ask(commit("g", {PLACE: 1}), BY_NAME)
    stage.ask(txn_commit("g", {PLACE: 5}))
    stage.restart()
    assert committed(stage, "g", PLACE, is_stable=True) == UNSTABLE
    stage.end_transaction(7, is_commit=is_commit)
    stage.restart()
    assert committed(stage, "g", PLACE, is_stable=True) == {"orders-0": 5 if is_commit else 1}
