"""When offsets expire, and groups with them."""

import pytest

from millstream.coordination.groups.classic.group import ClassicGroup
from millstream.coordination.groups.machine import GroupMachine
from millstream.coordination.groups.settings import GroupSettings
from millstream.coordination.schemas.consumer_offsets import GroupMetadataKey
from tests.unit.coordination.groups.offsets import BY_NAME, commit, committed, group_stage
from tests.unit.coordination.stage import Stage, Topics

RETENTION_MS = 100_000
SETTINGS = GroupSettings(offsets_retention_ms=RETENTION_MS, offsets_retention_check_interval_ms=1_000)


def groups_of(stage: Stage) -> set[str]:
    assert isinstance(stage.machine, GroupMachine)
    return set(stage.machine.groups)


def test_an_offset_of_a_simple_group_lives_a_retention_after_its_commit() -> None:
    stage = group_stage(settings=SETTINGS)
    stage.ask(commit("g", {("orders", 0): 1}), BY_NAME)
    stage.advance(RETENTION_MS // 2)
    stage.ask(commit("g", {("orders", 1): 1}), BY_NAME)
    stage.advance(RETENTION_MS // 2 - 1)
    assert committed(stage, "g") == {"orders-0": 1, "orders-1": 1}
    stage.advance(1_000)
    assert committed(stage, "g") == {"orders-1": 1}
    stage.advance(RETENTION_MS)
    assert groups_of(stage) == set()
    assert [type(record.key) for record in stage.records][-1] is GroupMetadataKey


def test_an_old_client_may_ask_for_less() -> None:
    stage = group_stage(settings=SETTINGS)
    stage.ask(commit("g", {("orders", 0): 1}, retention_time_ms=5_000), 4)
    stage.ask(commit("g", {("orders", 1): 1}), BY_NAME)
    stage.advance(6_000)
    assert committed(stage, "g") == {"orders-1": 1}


def test_a_group_that_emptied_counts_from_then(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = group_stage(settings=SETTINGS)
    stage.ask(commit("g", {("orders", 0): 1}), BY_NAME)
    emptied_ms = stage.now_ms + RETENTION_MS // 2
    monkeypatch.setattr(ClassicGroup, "offsets_expire_from", lambda self, committed_ms: emptied_ms)
    stage.advance(RETENTION_MS + 2_000)
    assert committed(stage, "g") == {"orders-0": 1}
    stage.advance(RETENTION_MS // 2)
    assert committed(stage, "g") == {}


def test_what_a_live_group_reads_or_needs_does_not_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = group_stage(settings=SETTINGS)
    stage.ask(commit("g", {("orders", 0): 1, ("audit", 0): 2}), BY_NAME)
    with monkeypatch.context() as patch:
        patch.setattr(ClassicGroup, "offsets_expire_from", lambda self, committed_ms: None)
        stage.advance(2 * RETENTION_MS)
        assert committed(stage, "g") == {"orders-0": 1, "audit-0": 2}
    monkeypatch.setattr(ClassicGroup, "is_subscribed", lambda self, topic: topic == "orders")
    stage.advance(2_000)
    assert committed(stage, "g") == {"orders-0": 1}
    assert groups_of(stage) == {"g"}


def test_very_many_offsets_expire_a_share_at_a_time() -> None:
    topics = Topics(orders=1_200)
    stage = group_stage(topics, SETTINGS)
    for group in ("g", "h"):
        stage.ask(commit(group, {("orders", partition): 1 for partition in range(1_200)}), BY_NAME)
    before = len(stage.log)
    stage.advance(RETENTION_MS + 10)
    assert groups_of(stage) == set()
    assert len(stage.log) == before + 2 * 1_201


def test_a_share_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = group_stage(Topics(orders=1_200), SETTINGS)
    stage.ask(commit("g", {("orders", partition): 1 for partition in range(1_200)}), BY_NAME)
    largest = 0
    decide = stage.machine.decide

    def watched(event: object, now_ms: int) -> object:
        nonlocal largest
        decision = decide(event, now_ms)
        largest = max(largest, len(decision.records))
        return decision

    monkeypatch.setattr(stage.machine, "decide", watched)
    stage.advance(RETENTION_MS)
    assert 0 < largest <= 501


def test_rounds_go_on_after_a_restart() -> None:
    stage = group_stage(settings=SETTINGS)
    stage.ask(commit("g", {("orders", 0): 1}), BY_NAME)
    stage.restart()
    assert stage.timers == {"expire-offsets": 1_000}
    stage.advance(2 * RETENTION_MS)
    assert groups_of(stage) == set()
    assert stage.timers.keys() == {"expire-offsets"}
