"""The glue: every request has one part, every record one reader, and what is nobody's is reported."""

from typing import NamedTuple

import pytest

from millstream.coordination.decision import Origin
from millstream.coordination.groups.group import TopicsChanged
from millstream.coordination.groups.machine import GroupMachine
from millstream.coordination.groups.offsets.expiry import ExpireOffsets
from millstream.coordination.groups.settings import GroupSettings
from millstream.coordination.schemas import consumer_offsets
from millstream.coordination.schemas.record import CoordinatorRecord
from millstream.model.errors import ErrorCode
from millstream.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from millstream.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from millstream.protocol.messages.list_groups import ListGroupsRequest
from tests.unit.coordination.groups.offsets import BY_NAME, commit, committed, group_stage
from tests.unit.coordination.stage import Stage, Topics, counted_ids


class StrangeKey(NamedTuple):
    name: str


def made(reports: list[str]) -> GroupMachine:
    return GroupMachine(GroupSettings, Topics(), counted_ids(), reports.append)


def test_a_record_that_is_nobodys_is_reported_and_skipped() -> None:
    reports: list[str] = []
    machine = made(reports)
    machine.replay(CoordinatorRecord(StrangeKey("x"), None), Origin(5, 0))
    assert len(reports) == 1
    assert "5" in reports[0]
    assert "StrangeKey" in reports[0]
    assert machine.groups == {}


def test_every_record_of_the_topic_has_a_reader() -> None:
    machine = made([])
    keys = {value for name, value in vars(consumer_offsets).items() if name.endswith("Key")}
    assert keys <= machine._replays.keys()


def test_parts_take_up_their_timers_when_the_log_is_read() -> None:
    assert [timer.key for timer in made([]).loaded(0).timers] == ["expire-offsets"]


# A group that goes, and offsets that stay.


def beat(member_epoch: int) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="c",
        member_epoch=member_epoch,
        rebalance_timeout_ms=60_000 if member_epoch == 0 else -1,
        subscribed_topic_names=["orders"] if member_epoch == 0 else None,
        topic_partitions=[] if member_epoch == 0 else None,
    )


def left_by_its_consumers() -> Stage:
    """A group of the consumer protocol without members, but with an offset."""
    stage = group_stage(Topics(orders=4))
    stage.ask(beat(0))
    stage.ask(beat(-1))
    stage.ask(commit("g", {("orders", 0): 7}), BY_NAME)
    return stage


def join(*protocols: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer" if protocols else "",
        protocols=[JoinGroupRequestProtocol(name=name) for name in protocols],
    )


def test_a_join_that_is_refused_leaves_an_empty_consumer_group_alone() -> None:
    stage = left_by_its_consumers()
    before = len(stage.log)
    assert stage.ask(join()).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert len(stage.log) == before
    assert stage.ask(ListGroupsRequest()).groups[0].group_type == "Consumer"


@pytest.mark.parametrize("restarts", [False, True])
def test_offsets_outlive_the_group_that_made_them_and_expire_in_their_time(restarts: bool) -> None:
    stage = left_by_its_consumers()
    stage.begin(join("range"))
    stage.advance(0)
    if restarts:
        stage.restart()
    stage.advance(20_000)  # It never came back with the id that it was given.
    assert [group.group_id for group in stage.ask(ListGroupsRequest()).groups] == ["g"]
    assert committed(stage, "g") == {"orders-0": 7}
    stage.advance(9 * 24 * 3_600_000)
    assert committed(stage, "g") == {}
    assert stage.ask(ListGroupsRequest()).groups == []
    anew = stage.loaded_anew()
    assert isinstance(anew, GroupMachine)
    assert anew.groups == {}


def test_what_a_change_of_topics_brings_may_be_split_and_changes_nothing_but_by_its_records() -> None:
    topics = Topics(orders=4)
    stage = group_stage(topics)
    stage.ask(beat(0))
    stage.ask(commit("h", {("orders", 0): 7}), BY_NAME)
    topics.delete("orders")
    decision = stage.machine.decide(TopicsChanged(frozenset({"orders"})), stage.now_ms)
    kinds = {type(key) for key, _ in decision.records}
    assert kinds == {consumer_offsets.ConsumerGroupMetadataKey, consumer_offsets.OffsetCommitKey}
    assert decision.is_pure
    assert decision.is_divisible


def test_expiry_changes_nothing_but_by_its_records() -> None:
    stage = group_stage(Topics(orders=4))
    stage.ask(commit("h", {("orders", 0): 7}), BY_NAME)
    decision = stage.machine.decide(ExpireOffsets(), stage.now_ms + 9 * 24 * 3_600_000)
    assert len(decision.records) == 2
    assert decision.is_pure
    assert decision.is_divisible
