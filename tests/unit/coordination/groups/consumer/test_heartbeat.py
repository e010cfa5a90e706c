"""ConsumerGroupHeartbeat: what is refused, what is answered, and what is written."""

from dataclasses import replace
from typing import Any

import pytest

from millstream.coordination.groups.consumer.member import MemberState
from millstream.coordination.groups.settings import GroupSettings
from millstream.model.errors import ErrorCode
from tests.unit.coordination.groups.consumer.clients import (
    GROUP,
    Consumer,
    group_of,
    heartbeat,
    joining,
    listed,
    named,
    stage_of,
    timers_of,
)
from tests.unit.coordination.stage import Stage, Topics

SESSION_MS = GroupSettings().group_consumer_session_timeout_ms


@pytest.fixture
def stage() -> Stage:
    return stage_of(Topics(orders=4, bills=2))


def keys(stage: Stage) -> list[str]:
    """The records that were written last, by the names of their keys; tombstones with a minus."""
    return [
        f"{'-' if value is None else ''}{type(key).__name__.removeprefix('ConsumerGroup').removesuffix('Key')}"
        for key, value in stage.records
    ]


@pytest.mark.parametrize(
    ("fields", "version", "code"),
    [
        ({"group_id": " "}, 1, "INVALID_REQUEST"),
        ({"member_id": ""}, 1, "INVALID_REQUEST"),
        ({"member_id": "", "member_epoch": 1}, 0, "INVALID_REQUEST"),
        ({"member_id": "", "member_epoch": -1}, 0, "INVALID_REQUEST"),
        ({"instance_id": ""}, 1, "INVALID_REQUEST"),
        ({"rack_id": " "}, 1, "INVALID_REQUEST"),
        ({"rebalance_timeout_ms": -1}, 1, "INVALID_REQUEST"),
        ({"topic_partitions": None}, 1, "INVALID_REQUEST"),
        ({"topic_partitions": listed([("orders", 0)])}, 1, "INVALID_REQUEST"),
        ({"subscribed_topic_names": None}, 1, "INVALID_REQUEST"),
        ({"member_epoch": -2}, 1, "INVALID_REQUEST"),
        ({"member_epoch": -3}, 1, "INVALID_REQUEST"),
        ({"server_assignor": "sticky"}, 1, "UNSUPPORTED_ASSIGNOR"),
        ({"subscribed_topic_regex": "("}, 1, "INVALID_REGULAR_EXPRESSION"),
        ({"member_epoch": 1}, 1, "GROUP_ID_NOT_FOUND"),
        ({"member_epoch": -1}, 1, "GROUP_ID_NOT_FOUND"),
    ],
)
def test_what_no_group_could_answer_is_refused(stage: Stage, fields: dict[str, Any], version: int, code: str) -> None:
    request = joining("a", "orders")
    for name, value in fields.items():
        setattr(request, name, value)
    assert stage.refusal(request, version) is ErrorCode[code]
    assert stage.log == []


def test_a_protocol_that_is_switched_off_is_refused() -> None:
    stage = stage_of(Topics(orders=4), lambda: GroupSettings(has_consumer_protocol=False))
    assert stage.refusal(joining("a", "orders")) is ErrorCode.UNSUPPORTED_VERSION


def test_the_first_member_has_everything_at_once(stage: Stage) -> None:
    answer = stage.ask(joining("a", "orders"))
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("a", 2, 5_000)
    assert named(answer.assignment.topic_partitions) == {("orders", each) for each in range(4)}
    assert keys(stage) == [
        "MemberMetadata",
        "Metadata",
        "TargetAssignmentMember",
        "TargetAssignmentMetadata",
        "CurrentMemberAssignment",
    ]
    assert timers_of(stage) == {("session", GROUP, "a"): SESSION_MS}


def test_the_broker_makes_the_id_of_a_member_of_version_0(stage: Stage) -> None:
    assert stage.ask(joining("", "orders"), 0).member_id == "m1"


def test_a_heartbeat_with_nothing_new_writes_nothing_and_moves_the_session(stage: Stage) -> None:
    stage.ask(joining("a", "orders"))
    written = len(stage.log)
    for _ in range(3):
        stage.advance(SESSION_MS - 1)
        answer = stage.ask(heartbeat("a", 2))
        assert (answer.member_epoch, answer.assignment) == (2, None)
    assert len(stage.log) == written
    assert group_of(stage).state_name == "Stable"


def test_a_full_heartbeat_is_told_what_it_has(stage: Stage) -> None:
    joined = stage.ask(joining("a", "orders"))
    full = joining("a", "orders", topic_partitions=joined.assignment.topic_partitions)
    full.member_epoch = 2
    assert named(stage.ask(full).assignment.topic_partitions) == {("orders", each) for each in range(4)}


def test_a_member_without_topics_is_a_member(stage: Stage) -> None:
    answer = stage.ask(joining("a"))
    assert (answer.member_epoch, answer.assignment.topic_partitions) == (1, [])
    assert group_of(stage).state_name == "Stable"


def test_a_topic_that_is_not_there_is_not_assigned_until_it_is() -> None:
    topics = Topics()
    stage = stage_of(topics)
    consumer = Consumer(stage, "a", "later")
    consumer.beat()
    assert consumer.owned == set()
    topics.make("later", 2)
    stage.topics_changed("later")
    assert group_of(stage).state_name == "Assigning"
    consumer.beat()
    assert consumer.owned == {("later", 0), ("later", 1)}


def test_an_unknown_member_and_a_wrong_epoch_are_refused(stage: Stage) -> None:
    stage.ask(joining("a", "orders"))
    assert stage.refusal(heartbeat("b", 2)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.refusal(heartbeat("b", -1)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert stage.refusal(heartbeat("a", 3)) is ErrorCode.FENCED_MEMBER_EPOCH
    assert stage.refusal(heartbeat("a", 1)) is ErrorCode.FENCED_MEMBER_EPOCH


def test_the_previous_epoch_is_accepted_with_no_more_than_was_given(stage: Stage) -> None:
    """The answer that raised the epoch may have been lost."""
    first, second = Consumer(stage, "a", "orders"), Consumer(stage, "b", "orders")
    first.beat()
    second.beat()
    first.beat()
    assert stage.ask(heartbeat("a", 2, topic_partitions=listed([("orders", 0)]))).member_epoch == 3
    assert stage.ask(heartbeat("a", 2, topic_partitions=listed([("orders", 0)]))).member_epoch == 3
    assert stage.ask(heartbeat("a", 2, topic_partitions=[])).member_epoch == 3
    beyond = listed([("orders", each) for each in range(4)])
    for owned in (None, beyond, listed([("bills", 0)])):
        assert stage.refusal(heartbeat("a", 2, topic_partitions=owned)) is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_may_join_again_with_the_id_it_has(stage: Stage) -> None:
    stage.ask(joining("a", "orders"))
    written = len(stage.log)
    answer = stage.ask(joining("a", "orders"))
    assert answer.member_epoch == 2
    assert len(named(answer.assignment.topic_partitions)) == 4
    assert len(stage.log) == written


def test_one_member_more_than_the_group_may_have_is_refused() -> None:
    stage = stage_of(Topics(orders=4), lambda: GroupSettings(group_consumer_max_size=1))
    stage.ask(joining("a", "orders"))
    assert stage.refusal(joining("b", "orders")) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert stage.refusal(joining("", "orders"), 0) is ErrorCode.GROUP_MAX_SIZE_REACHED
    stage.ask(joining("a", "orders"))


def test_the_assignor_most_members_want_is_used(stage: Stage) -> None:
    """Both topics of two partitions: range gives each member the same partition of both, uniform one topic of each."""
    topics = Topics(left=2, right=2)
    stage = stage_of(topics)
    members = [Consumer(stage, name, "left", "right", server_assignor="range") for name in "ab"]
    for _ in range(4):
        for member in members:
            member.beat()
    assert [member.owned for member in members] == [{("left", 0), ("right", 0)}, {("left", 1), ("right", 1)}]
    stage.ask(heartbeat("a", members[0].epoch, server_assignor="uniform"))
    assert group_of(stage).preferred_assignor(["uniform", "range"]) == "uniform"


def test_what_a_member_no_longer_reads_is_taken_at_once(stage: Stage) -> None:
    consumer = Consumer(stage, "a", "orders", "bills")
    consumer.beat()
    assert len(consumer.owned) == 6
    consumer.subscribe("bills")
    consumer.beat()
    consumer.beat()
    assert consumer.owned == {("bills", 0), ("bills", 1)}
    assert group_of(stage).state_name == "Stable"


def test_leaving_gives_everything_to_the_others(stage: Stage) -> None:
    first, second = Consumer(stage, "a", "orders"), Consumer(stage, "b", "orders")
    for _ in range(3):
        first.beat()
        second.beat()
    assert len(first.owned) == len(second.owned) == 2
    answer = stage.ask(heartbeat("a", -1))
    assert (answer.member_id, answer.member_epoch, answer.assignment) == ("a", -1, None)
    assert keys(stage) == ["-CurrentMemberAssignment", "-TargetAssignmentMember", "-MemberMetadata", "Metadata"]
    assert timers_of(stage).keys() == {("session", GROUP, "b")}
    second.beat()
    assert len(second.owned) == 4


def test_the_last_member_leaves_an_empty_group_that_keeps_its_epoch(stage: Stage) -> None:
    stage.ask(joining("a", "orders"))
    stage.ask(heartbeat("a", -1))
    group = group_of(stage)
    assert (group.state_name, group.epoch, group.members, group.plans, group.owners) == ("Empty", 3, {}, {}, {})
    assert stage.ask(joining("b", "orders")).member_epoch == 4


def test_a_silent_member_is_dropped(stage: Stage) -> None:
    first, second = Consumer(stage, "a", "orders"), Consumer(stage, "b", "orders")
    for _ in range(3):
        first.beat()
        second.beat()
    stage.advance(SESSION_MS - 1)
    second.beat()
    stage.advance(1)
    second.beat()
    assert len(second.owned) == 4
    assert first.beat() is None


def test_a_member_that_gives_nothing_back_is_dropped(stage: Stage) -> None:
    first, second = Consumer(stage, "a", "orders", rebalance_timeout_ms=10_000), Consumer(stage, "b", "orders")
    first.beat()
    second.beat()
    for _ in range(3):
        stage.advance(3_000)
        first.beat(is_slow=True)
        assert group_of(stage).members["a"].state is MemberState.UNREVOKED_PARTITIONS
        second.beat()
        assert second.owned == set()
    stage.advance(10_000)
    second.beat()
    assert len(second.owned) == 4
    assert first.beat(is_slow=True) is None


def test_a_static_member_that_is_away_keeps_what_it_has(stage: Stage) -> None:
    stage.ask(joining("a", "orders", instance_id="i"))
    assert stage.refusal(joining("b", "orders", instance_id="i")) is ErrorCode.UNRELEASED_INSTANCE_ID
    answer = stage.ask(heartbeat("a", -2, instance_id="i"))
    assert (answer.member_id, answer.member_epoch) == ("a", -2)
    epoch = group_of(stage).epoch
    back = stage.ask(joining("b", "orders", instance_id="i"))
    assert len(named(back.assignment.topic_partitions)) == 4
    assert group_of(stage).epoch == epoch
    assert group_of(stage).owners == {(back.assignment.topic_partitions[0].topic_id, each): "b" for each in range(4)}
    assert stage.refusal(heartbeat("a", 2, instance_id="i")) is ErrorCode.FENCED_INSTANCE_ID
    assert stage.refusal(heartbeat("a", -1, instance_id="i")) is ErrorCode.FENCED_INSTANCE_ID
    assert stage.refusal(heartbeat("b", 2, instance_id="j")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert timers_of(stage).keys() == {("session", GROUP, "b")}


def test_a_static_member_that_stays_away_is_dropped(stage: Stage) -> None:
    stage.ask(joining("a", "orders", instance_id="i"))
    stage.ask(heartbeat("a", -2, instance_id="i"))
    stage.advance(SESSION_MS)
    assert group_of(stage).members == {}
    assert group_of(stage).instances == {}


def test_a_topic_made_wider_is_planned_anew() -> None:
    topics = Topics(orders=2)
    stage = stage_of(topics)
    consumer = Consumer(stage, "a", "orders")
    consumer.beat()
    stage.topics_changed("bills")
    assert group_of(stage).state_name == "Stable"
    topics.make("orders", 3)
    stage.topics_changed("orders")
    assert keys(stage) == ["Metadata"]
    consumer.beat()
    assert len(consumer.owned) == 3
    topics.delete("orders")
    stage.topics_changed("orders")
    consumer.beat()
    consumer.beat()
    assert consumer.owned == set()


def test_a_change_nobody_told_of_is_found_after_a_restart() -> None:
    topics = Topics(orders=2)
    stage = stage_of(topics)
    consumer = Consumer(stage, "a", "orders")
    consumer.beat()
    consumer.beat()
    topics.make("orders", 5)
    consumer.beat()
    assert len(consumer.owned) == 2
    stage.restart()
    assert timers_of(stage) == {("session", GROUP, "a"): SESSION_MS}
    consumer.beat()
    assert len(consumer.owned) == 5


def test_who_has_to_give_back_is_waited_for_after_a_restart_too(stage: Stage) -> None:
    first, second = Consumer(stage, "a", "orders"), Consumer(stage, "b", "orders")
    first.beat()
    second.beat()
    first.beat(is_slow=True)
    stage.restart()
    assert stage.timers["revocation", GROUP, "a"] == 30_000


def test_a_pattern_stands_for_the_topics_it_matches_now() -> None:
    topics = Topics(**{"team-a": 1, "team-b": 1, "other": 1})
    stage = stage_of(topics)
    consumer = Consumer(stage, "a", subscribed_topic_names=None, subscribed_topic_regex="team-.*")
    consumer.beat()
    assert "RegularExpression" in keys(stage)
    assert consumer.owned == {("team-a", 0), ("team-b", 0)}
    assert group_of(stage).is_subscribed("team-a")
    assert not group_of(stage).is_subscribed("other")
    topics.make("team-c", 1)
    stage.topics_changed("team-c")
    consumer.beat()
    assert consumer.owned == {("team-a", 0), ("team-b", 0), ("team-c", 0)}
    consumer.leave()
    assert "-RegularExpression" in keys(stage)
    assert group_of(stage).regexes == {}


def test_a_pattern_goes_with_the_last_who_subscribes_by_it() -> None:
    topics = Topics(orders=2, bills=2)
    stage = stage_of(topics)
    for name in "ab":
        stage.ask(joining(name, subscribed_topic_names=None, subscribed_topic_regex="or.*"))
    stage.ask(heartbeat("a", 2, subscribed_topic_regex="bi.*", topic_partitions=[]))
    assert group_of(stage).regexes == {"or.*": frozenset({"orders"}), "bi.*": frozenset({"bills"})}
    epoch = group_of(stage).members["b"].epoch
    stage.ask(heartbeat("b", epoch, subscribed_topic_regex="", subscribed_topic_names=["orders"], topic_partitions=[]))
    assert group_of(stage).regexes == {"bi.*": frozenset({"bills"})}


def test_settings_that_change_hold_from_the_next_heartbeat() -> None:
    settings = GroupSettings()
    stage = stage_of(Topics(orders=1), lambda: settings)
    stage.ask(joining("a", "orders"))
    settings = replace(settings, group_consumer_session_timeout_ms=7_000, group_consumer_heartbeat_interval_ms=3_000)
    assert stage.ask(heartbeat("a", 2)).heartbeat_interval_ms == 3_000
    assert timers_of(stage) == {("session", GROUP, "a"): 7_000}
