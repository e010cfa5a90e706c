import tracemalloc
from typing import Any

import pytest

from millstream.coordination.groups.classic.events import (
    InitialDelayOver,
    JoinExpired,
    RebalanceWanted,
    SessionExpired,
    SyncExpired,
)
from millstream.coordination.groups.classic.group import ClassicGroup, State
from millstream.coordination.groups.consumer.group import ConsumerGroup
from millstream.coordination.groups.consumer.member import ConsumerMember
from millstream.coordination.groups.machine import GroupMachine
from millstream.coordination.groups.settings import GroupSettings
from millstream.model.errors import ErrorCode
from millstream.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from millstream.protocol.messages.heartbeat import HeartbeatRequest
from millstream.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from millstream.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.unit.coordination.groups.classic.machine import GROUP, ClassicMachine, join_request, maker
from tests.unit.coordination.stage import Stage, Topics, counted_ids

NO_DELAY = GroupSettings(group_initial_rebalance_delay_ms=0)


@pytest.fixture
def stage() -> Stage:
    return Stage(maker(lambda: NO_DELAY))


def machine_of(stage: Stage) -> ClassicMachine:
    assert isinstance(stage.machine, ClassicMachine)
    return stage.machine


def sync_request(member_id: str, generation: int, *assigned: str, **fields: Any) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=GROUP,
        generation_id=generation,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=each, assignment=each.encode()) for each in assigned],
        **fields,
    )


def settled(stage: Stage, count: int) -> list[str]:
    """That many members in a stable group."""
    first = [stage.begin(join_request(), 3) for _ in range(count)]
    stage.advance(0)
    ids = [stage.answers.pop(ticket).member_id for ticket in first]
    for member_id in ids:
        stage.ask(sync_request(member_id, machine_of(stage).group().generation, *ids))
    return ids


# Versions.


def test_a_member_of_version_0_has_its_session_to_re_join(stage: Stage) -> None:
    stage.begin(join_request(rebalance_timeout_ms=-1, session_timeout_ms=7_000), 0)
    [member] = machine_of(stage).group().members.values()
    assert member.rebalance_timeout_ms == 7_000


@pytest.mark.parametrize("version", range(4))
def test_before_version_4_a_member_is_taken_in_at_once(stage: Stage, version: int) -> None:
    ticket = stage.begin(join_request(), version)
    stage.advance(0)
    assert stage.answers[ticket].error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", range(4, 10))
def test_from_version_4_on_a_member_comes_back_with_its_id(stage: Stage, version: int) -> None:
    answer = stage.ask(join_request(), version)
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id == "client-m1"
    ticket = stage.begin(join_request(answer.member_id), version)
    stage.advance(0)
    assert stage.answers[ticket].error_code == ErrorCode.NONE
    assert stage.answers[ticket].member_id == "client-m1"


def test_a_pending_member_may_not_turn_static(stage: Stage) -> None:
    member_id = stage.ask(join_request(), 9).member_id
    answer = stage.ask(join_request(member_id, instance_id="s"), 9)
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_from_version_5_on_a_sync_names_the_protocol(stage: Stage) -> None:
    [member_id] = settled(stage, 1)
    request = sync_request(member_id, 1)
    request.protocol_type = request.protocol_name = None
    assert stage.refusal(request, 5) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert stage.ask(request, 4).assignment == member_id.encode()


@pytest.mark.parametrize(
    "request_",
    [SyncGroupRequest(group_id=""), HeartbeatRequest(group_id=""), LeaveGroupRequest(group_id="")],
    ids=lambda request_: type(request_).__name__,
)
def test_a_group_has_a_name(stage: Stage, request_: Any) -> None:
    assert stage.refusal(request_) is ErrorCode.INVALID_GROUP_ID


def test_several_leave_at_once_and_each_is_told(stage: Stage) -> None:
    one, two, three = settled(stage, 3)
    leaving = [MemberIdentity(member_id=each) for each in (one, "stranger", three, one)]
    answer = stage.ask(LeaveGroupRequest(group_id=GROUP, members=leaving))
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert answer.error_code == ErrorCode.NONE
    assert [row.error_code for row in answer.members] == [ErrorCode.NONE, unknown, ErrorCode.NONE, unknown]
    assert list(machine_of(stage).group().members) == [two]


# Late and stray timers.


def test_timers_of_what_is_gone_do_nothing(stage: Stage) -> None:
    events = [
        SessionExpired(GROUP, "x"),
        InitialDelayOver(GROUP, 0, 0),
        JoinExpired(GROUP),
        SyncExpired(GROUP, 1),
        RebalanceWanted(GROUP, "?"),
    ]
    for event in events:
        stage.tell(event)
    settled(stage, 2)
    for event in [*events[:4], SyncExpired(GROUP, 0)]:
        stage.tell(event)
    assert machine_of(stage).group().state is State.STABLE
    assert len(stage.log) == 1


def test_only_the_sessions_are_left_once_a_group_is_stable(stage: Stage) -> None:
    ids = settled(stage, 3)
    assert set(stage.timers) == {("session", GROUP, each) for each in ids}


# Loading.


def test_sessions_begin_anew_when_a_group_is_loaded(stage: Stage) -> None:
    ids = settled(stage, 2)
    stage.advance(9_000)
    stage.restart()
    assert stage.timers == {("session", GROUP, each): 10_000 for each in ids}


# Records that the log does not take.


def test_an_assignment_that_is_too_large_is_told_to_all_who_wait_for_it_and_the_group_meets(stage: Stage) -> None:
    tickets = [stage.begin(join_request(), 3) for _ in range(3)]
    stage.advance(0)
    first, second, third = (stage.answers.pop(ticket).member_id for ticket in tickets)
    superseded, waiting = (stage.begin(sync_request(second, 1)) for _ in range(2))
    stage.bytes_max = 10
    leading = stage.begin(sync_request(first, 1, first, second, third))
    assert [stage.answers.pop(each).error_code for each in (superseded, waiting, leading)] == [
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ]
    group = machine_of(stage).group()
    assert group.state is State.PREPARING
    assert not stage.log
    assert {("session", GROUP, first), ("session", GROUP, second)} < set(stage.timers)
    stage.bytes_max = None
    again = [stage.begin(join_request(each), 3) for each in (first, second, third)]
    assert {stage.answers.pop(each).generation_id for each in again} == {2}
    assert stage.ask(sync_request(first, 2, first)).assignment == first.encode()


def test_a_static_member_that_says_too_much_of_itself_does_not_replace_the_one_before(stage: Stage) -> None:
    ticket = stage.begin(join_request(instance_id="i"), 5)
    stage.advance(0)
    member_id = stage.answers.pop(ticket).member_id
    stage.ask(sync_request(member_id, 1, member_id, group_instance_id="i"))
    stage.bytes_max = 0
    assert stage.ask(join_request(instance_id="i"), 9).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    request = HeartbeatRequest(group_id=GROUP, member_id=member_id, generation_id=1, group_instance_id="i")
    assert stage.ask(request).error_code == ErrorCode.NONE


def test_a_meeting_of_static_members_to_which_nobody_comes_is_not_looked_at_all_the_time(stage: Stage) -> None:
    tickets = [stage.begin(join_request(instance_id=each), 5) for each in "ab"]
    stage.advance(0)
    first, second = (stage.answers.pop(ticket).member_id for ticket in tickets)
    for member_id, instance_id in ((first, "a"), (second, "b")):
        stage.ask(sync_request(member_id, 1, first, second, group_instance_id=instance_id))
    for member in machine_of(stage).group().members.values():
        member.rebalance_timeout_ms = 0
    stage.tell(RebalanceWanted(GROUP, "a test says so"))
    for _ in range(5):
        stage.advance(stage.timers["join", GROUP])
    assert stage.timers["join", GROUP] >= 1_000


# Groups of the other protocol.


def test_members_of_a_consumer_group_are_handed_over(stage: Stage) -> None:
    group = ConsumerGroup(GROUP)
    group.members["m"] = ConsumerMember("m")
    machine_of(stage).groups[GROUP] = group
    assert stage.ask(join_request()) == "join"
    assert stage.ask(sync_request("m", 1)) == "sync"
    assert stage.ask(HeartbeatRequest(group_id=GROUP, member_id="m")) == "heartbeat"
    assert stage.ask(LeaveGroupRequest(group_id=GROUP)) == "leave"


def test_a_group_that_is_handed_over_by_another_protocol_meets(stage: Stage) -> None:
    ids = settled(stage, 2)
    stage.restart()
    stage.tell(RebalanceWanted(GROUP, "the last member of the other protocol is gone"))
    assert machine_of(stage).group().state is State.PREPARING
    assert {("session", GROUP, each) for each in ids} < set(stage.timers)


def test_an_empty_consumer_group_makes_room_for_a_classic_one() -> None:
    stage = Stage(lambda: GroupMachine(lambda: NO_DELAY, Topics(orders=2), counted_ids(), lambda line: None))
    beat = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="new",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )
    stage.ask(beat)
    stage.ask(ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="new", member_epoch=-1))
    assert isinstance(stage.machine, GroupMachine)
    assert isinstance(stage.machine.groups[GROUP], ConsumerGroup)
    assert stage.ask(join_request("new"), 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    ticket = stage.begin(join_request(), 3)
    assert GROUP not in stage.machine.groups
    stage.advance(0)
    assert stage.answers[ticket].error_code == ErrorCode.NONE
    assert isinstance(stage.machine.groups[GROUP], ClassicGroup)


# Cost.


def test_an_idle_member_costs_little() -> None:
    stage = Stage(maker(lambda: NO_DELAY))
    settled(stage, 1)  # Whatever is made once.
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        other = Stage(maker(lambda: NO_DELAY))
        ids = settled(other, 200)
        other.log.clear()
        other.records.clear()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / len(ids) < 4_000
