"""Groups that change their protocol while members go on."""

from typing import Any

import pytest

from millstream.coordination.groups.classic.group import ClassicGroup, State
from millstream.coordination.groups.consumer.group import ConsumerGroup
from millstream.coordination.groups.machine import GroupMachine
from millstream.coordination.groups.settings import GroupSettings
from millstream.model.errors import ErrorCode, ProtocolError
from millstream.protocol.messages.join_group import JoinGroupRequestProtocol
from millstream.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from millstream.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.unit.coordination.groups.consumer.clients import (
    GROUP,
    REBALANCE_TIMEOUT_MS,
    ClassicConsumer,
    Consumer,
    group_of,
    heartbeat,
    joining,
    named,
    stage_of,
    timers_of,
)
from tests.unit.coordination.stage import Stage, Topics

TOPICS = Topics(orders=4)
#: A version-3 assignment of these partitions of "orders".
TWO, ALL = ([0, 1], [2, 3]), ([0, 1, 2, 3],)


def settings(policy: str = "bidirectional", **others: Any) -> GroupSettings:
    return GroupSettings(group_initial_rebalance_delay_ms=0, group_consumer_migration_policy=policy, **others)


@pytest.fixture
def stage() -> Stage:
    return stage_of(TOPICS, settings)


def any_group(stage: Stage) -> ClassicGroup | ConsumerGroup:
    machine = stage.machine
    assert isinstance(machine, GroupMachine)
    group = machine.groups[GROUP]
    assert isinstance(group, ClassicGroup | ConsumerGroup)
    return group


def code_of(stage: Stage, request: Any) -> ErrorCode:
    """How a classic client is refused, in whichever way."""
    try:
        return ErrorCode(stage.ask(request).error_code)
    except ProtocolError as refusal:
        return refusal.code


def assignment(partitions: list[int], user_data: bytes = b"") -> bytes:
    ints = [len(partitions), *partitions]
    listed = b"".join(each.to_bytes(4, "big") for each in ints)
    return (
        b"\x00\x03"
        + (1).to_bytes(4, "big")
        + b"\x00\x06orders"
        + listed
        + len(user_data).to_bytes(4, "big")
        + user_data
    )


def classic_group(
    stage: Stage, *shares: list[int], told: bytes | None = None, assigned: bytes = b""
) -> list[ClassicConsumer]:
    """A stable classic group, assigned by its leader as classic clients do, with what assignors add."""
    consumers = [ClassicConsumer(stage, "orders") for _ in shares]
    for consumer in consumers:
        consumer.user_data = told
    tickets = {}
    for consumer in consumers:
        consumer.member_id = stage.ask(consumer.join_request()).member_id
        tickets[stage.begin(consumer.join_request())] = consumer
    stage.advance(0)
    for ticket, consumer in tickets.items():
        answer = stage.answers.pop(ticket)
        assert answer.error_code == 0
        consumer.generation, consumer.protocol = answer.generation_id, answer.protocol_name
    rows = [
        SyncGroupRequestAssignment(member_id=consumer.member_id, assignment=assignment(share, assigned))
        for consumer, share in zip(consumers, shares, strict=True)
    ]
    stage.ask(
        SyncGroupRequest(
            group_id=GROUP,
            generation_id=consumers[0].generation,
            member_id=consumers[0].member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocol_name="range",
            assignments=rows,
        )
    )
    for consumer, share in zip(consumers, shares, strict=True):
        consumer.owned = {("orders", each) for each in share}
    assert any_group(stage).state_name == "Stable"
    return consumers


def test_an_empty_classic_group_becomes_a_consumer_group(stage: Stage) -> None:
    (guest,) = classic_group(stage, *ALL)
    stage.ask(LeaveGroupRequest(group_id=GROUP, member_id="", members=[MemberIdentity(member_id=guest.member_id)]))
    assert any_group(stage).state_name == "Empty"
    assert stage.ask(joining("new", "orders")).member_epoch == 2
    assert list(group_of(stage).members) == ["new"]
    assert isinstance(stage.loaded_anew(), GroupMachine)


def test_classic_members_go_on_in_the_group_that_a_new_member_takes_over(stage: Stage) -> None:
    first, second = classic_group(stage, *TWO)
    new = Consumer(stage, "new", "orders")
    new.beat()
    group = group_of(stage)
    assert set(group.members) == {first.member_id, second.member_id, "new"}
    assert (group.epoch, new.epoch, new.owned) == (2, 2, set())
    for consumer in (first, second):
        assert consumer.beat() is ErrorCode.REBALANCE_IN_PROGRESS
        assert consumer.generation in (1, 2)
    for _ in range(3):
        first.beat()
        second.beat()
        new.beat()
    assert sorted(map(len, (first.owned, second.owned, new.owned))) == [1, 1, 2]
    assert first.owned | second.owned | new.owned == {("orders", each) for each in range(4)}
    assert group.state_name == "Stable"
    assert first.beat() is ErrorCode.NONE


def test_who_waits_in_a_classic_group_that_is_taken_over_comes_again(stage: Stage) -> None:
    (first,) = classic_group(stage, *ALL)
    second = ClassicConsumer(stage, "orders")
    second.member_id = stage.ask(second.join_request()).member_id
    ticket = stage.begin(second.join_request())
    assert any_group(stage).state_name == "PreparingRebalance"
    # A refusal leaves it as it is.
    assert stage.refusal(joining("new", subscribed_topic_regex="(")) is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert ticket not in stage.answers
    stage.ask(joining("new", "orders"))
    assert stage.answers.pop(ticket).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert set(group_of(stage).members) == {first.member_id, second.member_id, "new"}
    second.join()


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_a_group_is_not_taken_over_where_that_is_switched_off(policy: str) -> None:
    stage = stage_of(TOPICS, lambda: settings(policy))
    classic_group(stage, *ALL)
    assert stage.refusal(joining("new", "orders")) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_too_large_or_of_other_clients_is_not_taken_over() -> None:
    stage = stage_of(TOPICS, lambda: settings(group_consumer_max_size=1))
    classic_group(stage, *TWO)
    assert stage.refusal(joining("new", "orders")) is ErrorCode.GROUP_ID_NOT_FOUND
    stage = stage_of(TOPICS, settings)
    connect = ClassicConsumer(stage, "orders").join_request()
    connect.protocol_type = "connect"
    connect.member_id = stage.ask(connect).member_id
    stage.begin(connect)
    assert stage.refusal(joining("new", "orders")) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_whose_metadata_cannot_be_read_is_not_taken_over(stage: Stage) -> None:
    odd = ClassicConsumer(stage, "orders").join_request()
    odd.protocols = [JoinGroupRequestProtocol(name="range", metadata=b"?")]
    odd.member_id = stage.ask(odd).member_id
    stage.begin(odd)
    assert stage.refusal(joining("new", "orders")) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_whose_assignor_tells_members_more_than_partitions_is_not_taken_over(stage: Stage) -> None:
    classic_group(stage, *ALL, assigned=b"more")
    assert stage.refusal(joining("new", "orders")) is ErrorCode.GROUP_ID_NOT_FOUND


def test_an_assignor_that_only_echoes_what_members_told_it_is_no_obstacle(stage: Stage) -> None:
    """As librdkafka's cooperative-sticky does."""
    classic_group(stage, *ALL, told=b"mine", assigned=b"mine")
    stage.ask(joining("new", "orders"))
    assert len(group_of(stage).members) == 2


def test_the_last_new_member_leaves_a_classic_group_that_meets(stage: Stage) -> None:
    first, second = classic_group(stage, *TWO)
    new = Consumer(stage, "new", "orders")
    for _ in range(4):
        new.beat()
        first.beat()
        second.beat()
    epoch = group_of(stage).epoch
    new.leave()
    classic = any_group(stage)
    assert isinstance(classic, ClassicGroup)
    assert (classic.state, classic.generation, classic.protocol_name) == (State.STABLE, epoch, "range")
    assert {len(each.protocols) for each in classic.members.values()} == {1}
    stage.advance(0)
    assert any_group(stage).state_name == "PreparingRebalance"
    assert timers_of(stage).keys() >= {("session", GROUP, each.member_id) for each in (first, second)}
    tickets = [stage.begin(each.join_request()) for each in (first, second)]
    assert [stage.answers[ticket].error_code for ticket in tickets] == [0, 0]


@pytest.mark.parametrize("is_called", [False, True])
def test_a_group_that_goes_back_meets_though_its_coordinator_moves(stage: Stage, is_called: bool) -> None:
    """What the leaver had would otherwise be nobody's until something else has the group meet."""
    guests = classic_group(stage, *TWO)
    new = Consumer(stage, "new", "orders")
    for _ in range(4):
        new.beat()
        for each in guests:
            each.beat()
    new.leave()
    if is_called:
        stage.advance(0)
    stage.restart()
    assert any_group(stage).state_name == "PreparingRebalance"
    tickets = [stage.begin(each.join_request()) for each in guests]
    answers = [stage.answers.pop(ticket) for ticket in tickets]
    assert [(each.error_code, len(each.members)) for each in answers] == [(0, 2), (0, 0)]
    stage.restart()
    assert any_group(stage).state_name == "PreparingRebalance", "it has no assignment yet"


def test_who_joins_a_group_that_went_back_meets_the_others(stage: Stage) -> None:
    """Even before it is called together, and though the member says nothing new."""
    first, second = classic_group(stage, *TWO)
    new = Consumer(stage, "new", "orders")
    new.beat()
    new.leave()
    classic = any_group(stage)
    assert isinstance(classic, ClassicGroup)
    for at, guest in enumerate((second, first)):
        request = guest.join_request()
        told = classic.members[guest.member_id].protocols
        request.protocols = [JoinGroupRequestProtocol(name=name, metadata=data) for name, data in told.items()]
        ticket = stage.begin(request)
        stage.advance(0)
        assert (ticket in stage.answers) == (at == 1)
    assert classic.state is State.COMPLETING


def test_a_group_loaded_after_going_up_and_down_is_the_same(stage: Stage) -> None:
    first, _ = classic_group(stage, *TWO)
    new = Consumer(stage, "new", "orders")
    new.beat()
    first.beat()
    stage.restart()
    assert set(timers_of(stage)) == {("session", GROUP, each) for each in group_of(stage).members}
    new.beat()
    new.leave()
    stage.restart()
    classic = any_group(stage)
    assert isinstance(classic, ClassicGroup)
    assert len(classic.members) == 2


@pytest.mark.parametrize("policy", ["disabled", "upgrade"])
def test_a_group_stays_where_going_back_is_switched_off(policy: str) -> None:
    policies = ["bidirectional"]
    stage = stage_of(TOPICS, lambda: settings(policies[-1]))
    classic_group(stage, *ALL)
    stage.ask(joining("new", "orders"))
    policies.append(policy)
    stage.ask(heartbeat("new", -1))
    assert len(group_of(stage).members) == 1


def test_a_group_that_had_to_stay_goes_back_with_the_next_to_leave_once_it_may() -> None:
    policies = ["bidirectional"]
    stage = stage_of(TOPICS, lambda: settings(policies[-1]))
    first, second = classic_group(stage, *TWO)
    stage.ask(joining("new", "orders"))
    policies.append("disabled")
    stage.ask(heartbeat("new", -1))
    assert first.beat() is ErrorCode.REBALANCE_IN_PROGRESS  # Nobody else is there to have the plan made.
    assert group_of(stage).assignment_epoch == group_of(stage).epoch
    policies.append("downgrade")
    stage.ask(LeaveGroupRequest(group_id=GROUP, member_id="", members=[MemberIdentity(member_id=first.member_id)]))
    assert list(any_group(stage).members) == [second.member_id]
    assert isinstance(any_group(stage), ClassicGroup)


def test_a_classic_member_that_is_silent_or_late_is_dropped(stage: Stage) -> None:
    first, second = classic_group(stage, *TWO)
    new = Consumer(stage, "new", "orders")
    new.beat()
    stage.advance(9_999)
    new.beat()
    assert first.beat() is ErrorCode.REBALANCE_IN_PROGRESS
    stage.advance(1)  # The session that it asked for.
    assert set(group_of(stage).members) == {first.member_id, "new"}
    with pytest.raises(ProtocolError, match="UNKNOWN_MEMBER_ID"):
        second.beat()


def test_a_classic_member_must_join_again_in_time(stage: Stage) -> None:
    (guest,) = classic_group(stage, *ALL)
    new = Consumer(stage, "new", "orders")
    new.beat()
    request = guest.join_request()
    for _ in range(REBALANCE_TIMEOUT_MS // 5_000):
        guest.join = lambda: None  # type: ignore[method-assign]
        assert guest.beat() is ErrorCode.REBALANCE_IN_PROGRESS
        stage.advance(5_000)
        new.beat()
    assert list(group_of(stage).members) == ["new"]
    assert stage.ask(request).error_code == 0  # As a new member: its id is its own.


def test_a_classic_member_must_sync_in_time(stage: Stage) -> None:
    (guest,) = classic_group(stage, *ALL)
    new = Consumer(stage, "new", "orders")
    new.beat()
    answer = stage.ask(guest.join_request())
    guest.generation = answer.generation_id
    guest.join = lambda: None  # type: ignore[method-assign]
    for _ in range(REBALANCE_TIMEOUT_MS // 5_000):
        stage.advance(5_000)
        new.beat()
        if guest.member_id in group_of(stage).members:
            guest.beat()
    assert list(group_of(stage).members) == ["new"]


def test_what_classic_members_may_not_say(stage: Stage) -> None:
    (guest,) = classic_group(stage, *ALL)
    stage.ask(joining("new", "orders"))
    odd = guest.join_request()
    odd.protocols = [JoinGroupRequestProtocol(name="sticky", metadata=odd.protocols[0].metadata)]
    assert code_of(stage, odd) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    odd.protocols = [JoinGroupRequestProtocol(name="range", metadata=b"?")]
    assert code_of(stage, odd) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    odd = guest.join_request()
    odd.protocol_type = "connect"
    assert code_of(stage, odd) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    guest.join()
    cases: list[tuple[dict[str, Any], ErrorCode]] = [
        ({"generation_id": 99}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "new"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"group_instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    for fields, code in cases:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=guest.generation,
            member_id=guest.member_id,
            group_instance_id=None,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[],
        )
        for name, value in fields.items():
            setattr(request, name, value)
        assert code_of(stage, request) is code
    group = group_of(stage)
    with pytest.raises(ProtocolError, match="ILLEGAL_GENERATION"):
        group.check_commit(guest.member_id, None, 99, (), is_transactional=False, version=8)
    assert group.check_commit(guest.member_id, None, guest.generation, (), is_transactional=False, version=8) == ()


def test_several_members_leave_at_once_each_with_an_answer(stage: Stage) -> None:
    first, second = classic_group(stage, *TWO)
    stage.ask(joining("new", "orders", instance_id="i"))
    leaving = [
        MemberIdentity(member_id=first.member_id),
        MemberIdentity(member_id="nobody"),
        MemberIdentity(member_id="", group_instance_id="i"),
        MemberIdentity(member_id="x", group_instance_id="i"),
    ]
    answer = stage.ask(LeaveGroupRequest(group_id=GROUP, member_id="", members=leaving))
    codes = [ErrorCode(row.error_code).name for row in answer.members]
    assert codes == ["NONE", "UNKNOWN_MEMBER_ID", "NONE", "FENCED_INSTANCE_ID"]
    classic = any_group(stage)
    assert isinstance(classic, ClassicGroup)
    assert list(classic.members) == [second.member_id]


def test_an_old_leave_of_an_unknown_member_is_refused_in_its_answer(stage: Stage) -> None:
    stage.ask(joining("new", "orders"))
    answer = stage.ask(LeaveGroupRequest(group_id=GROUP, member_id="nobody", members=[]), 2)
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_classic_member_takes_the_place_of_a_new_one_and_back() -> None:
    """The only new member is replaced by its classic self: nobody speaks the new protocol, so the group goes back."""
    stage = stage_of(TOPICS, settings)
    new = stage.ask(joining("new", "orders", instance_id="i"))
    other = ClassicConsumer(stage, "orders")
    other.join()
    old = ClassicConsumer(stage, "orders", instance_id="i")
    answer = stage.ask(old.join_request())
    assert answer.error_code == 0
    classic = any_group(stage)
    assert isinstance(classic, ClassicGroup)
    assert set(classic.members) == {answer.member_id, other.member_id}
    assert len(named(new.assignment.topic_partitions)) == 4
    old.member_id, old.generation, old.protocol = answer.member_id, answer.generation_id, answer.protocol_name
    stage.advance(0)
    assert timers_of(stage).keys() == {("session", GROUP, each) for each in classic.members}
    old.sync()
    assert len(old.owned) == 2
    # And back: a classic member never says that it is away, so that its new self takes its place at once.
    back = stage.ask(joining("new-2", "orders", instance_id="i"))
    assert {("i", "new-2")} == set(group_of(stage).instances.items())
    assert named(back.assignment.topic_partitions) == old.owned


def test_an_empty_consumer_group_becomes_a_classic_one(stage: Stage) -> None:
    stage.ask(joining("new", "orders"))
    stage.ask(heartbeat("new", -1))
    guest = ClassicConsumer(stage, "orders")
    ticket = stage.begin(guest.join_request())
    stage.advance(0)
    guest.member_id = stage.answers.pop(ticket).member_id
    assert isinstance(any_group(stage), ClassicGroup)
    stage = stage_of(TOPICS, settings)
    stage.ask(joining("new", "orders"))
    stage.ask(heartbeat("new", -1))
    guest.member_id = "stale"
    assert code_of(stage, guest.join_request()) is ErrorCode.UNKNOWN_MEMBER_ID
