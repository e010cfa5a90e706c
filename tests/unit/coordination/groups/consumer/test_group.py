"""What a consumer group answers to offsets and administration, and how it is described."""

import pytest

from millstream.coordination.groups.consumer.description import described
from millstream.coordination.groups.consumer.group import ConsumerGroup
from millstream.coordination.groups.consumer.records import group_epoch, owned_of
from millstream.coordination.groups.group import GroupType
from millstream.coordination.schemas.consumer_offsets import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    TopicPartitions,
)
from millstream.model.errors import ErrorCode, ProtocolError
from tests.unit.coordination.groups.consumer.clients import GROUP, Consumer, group_of, joining, stage_of
from tests.unit.coordination.groups.offsets import codes, commit
from tests.unit.coordination.stage import Stage, Topics, topic_id_of

TOPICS = Topics(orders=4)


@pytest.fixture
def stage() -> Stage:
    stage = stage_of(TOPICS)
    stage.ask(joining("a", "orders"))
    return stage


def code_of_commit(
    group: ConsumerGroup,
    member_id: str,
    epoch: int,
    *partitions: int,
    is_transactional: bool = False,
    version: int = 9,
) -> str:
    places = [(topic_id_of("orders"), each) for each in partitions or (0,)]
    try:
        assert (
            group.check_commit(member_id, None, epoch, places, is_transactional=is_transactional, version=version) == ()
        )
    except ProtocolError as refusal:
        return refusal.code.name
    return "NONE"


def test_only_a_member_of_the_right_epoch_commits(stage: Stage) -> None:
    group = group_of(stage)
    assert code_of_commit(group, "a", 2) == "NONE"
    assert code_of_commit(group, "a", 1) == "STALE_MEMBER_EPOCH"
    assert code_of_commit(group, "a", 3) == "STALE_MEMBER_EPOCH"
    assert code_of_commit(group, "b", 2) == "UNKNOWN_MEMBER_ID"
    assert code_of_commit(group, "", -1) == "UNKNOWN_MEMBER_ID"
    assert code_of_commit(group, "a", 2, version=8) == "UNSUPPORTED_VERSION"
    assert code_of_commit(group, "a", 2, version=3, is_transactional=True) == "NONE"
    assert code_of_commit(group, "", -1, is_transactional=True) == "NONE"


def test_a_member_that_lags_behind_commits_what_it_had_before_and_still_has() -> None:
    stage = stage_of(TOPICS)
    a, b = Consumer(stage, "a", "orders"), Consumer(stage, "b", "orders")
    for each in (a, b, a):
        each.beat()
    epoch = a.epoch
    a.beat()
    assert a.epoch == epoch + 1, "it gave back what is b's"
    group = group_of(stage)
    kept, lost = (sorted(group.plans[name][topic_id_of("orders")]) for name in "ab")
    assert code_of_commit(group, "a", epoch, *kept) == "NONE"
    assert code_of_commit(group, "a", epoch, *kept, is_transactional=True) == "NONE"
    assert code_of_commit(group, "a", epoch, kept[0], lost[0]) == "STALE_MEMBER_EPOCH"
    assert code_of_commit(group, "a", epoch - 1, *kept) == "STALE_MEMBER_EPOCH"
    assert code_of_commit(group, "a", epoch + 2, *kept) == "STALE_MEMBER_EPOCH"
    for version in (9, 10):
        for partitions, code in ((kept, ErrorCode.NONE), (kept + lost, ErrorCode.STALE_MEMBER_EPOCH)):
            offsets = {("orders", each): 7 for each in partitions}
            request = commit(GROUP, offsets, member_id="a", generation_id_or_member_epoch=epoch)
            assert codes(stage.ask(request, version)) == [code] * len(offsets)


def test_anybody_commits_in_an_empty_group() -> None:
    assert code_of_commit(ConsumerGroup(GROUP), "", -1) == "NONE"
    assert code_of_commit(ConsumerGroup(GROUP), "a", 2) == "UNKNOWN_MEMBER_ID"


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [
        (None, -1, None),
        ("", -1, None),
        ("a", 2, None),
        ("a", 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("b", 2, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, 2, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_may_read_offsets(stage: Stage, member_id: str | None, epoch: int, code: ErrorCode | None) -> None:
    try:
        group_of(stage).check_fetch(member_id, epoch)
        found = None
    except ProtocolError as refusal:
        found = refusal.code
    assert found is code


def test_a_group_is_deleted_when_nobody_is_in_it(stage: Stage) -> None:
    group = group_of(stage)
    with pytest.raises(ProtocolError, match="NON_EMPTY_GROUP"):
        group.check_delete()
    Consumer(stage, "a", "orders").leave()
    group.check_delete()
    for record in group.tombstones():
        group.take(*record)
    assert (group.plans, group.members, group.regexes, group.owners) == ({}, {}, {}, {})


def test_a_group_says_what_it_is(stage: Stage) -> None:
    group = group_of(stage)
    assert (group.type, group.protocol_type) == (GroupType.CONSUMER, "consumer")
    assert group.is_subscribed("orders")
    assert not group.is_subscribed("bills")
    assert group.offsets_expire_from(77) == 77


def test_a_description_shows_what_members_have_and_should_have(stage: Stage) -> None:
    first, second = Consumer(stage, "a", "orders"), Consumer(stage, "b", "orders", rack_id="r")
    first.beat()
    second.beat()
    first.beat(is_slow=True)
    shown = described(group_of(stage), ("uniform", "range"), TOPICS)
    assert (shown.error_code, shown.group_id, shown.group_state) == (0, GROUP, "Reconciling")
    assert (shown.group_epoch, shown.assignment_epoch, shown.assignor_name) == (3, 3, "uniform")
    a, b = shown.members
    assert (a.member_id, a.member_epoch, a.rack_id, a.client_id, a.client_host) == ("a", 2, None, "a", "/host")
    assert (a.subscribed_topic_names, a.subscribed_topic_regex, a.member_type) == (["orders"], "", 1)
    assert a.assignment.topic_partitions[0].topic_name == "orders"
    assert a.assignment.topic_partitions[0].partitions == [0, 1, 2, 3]  # It has not given any back yet.
    assert a.target_assignment.topic_partitions[0].partitions == [0, 1]
    assert (b.rack_id, b.assignment.topic_partitions) == ("r", [])
    assert b.target_assignment.topic_partitions[0].partitions == [2, 3]


def test_a_copy_changes_nothing_of_the_group(stage: Stage) -> None:
    group = group_of(stage)
    copy = group.copy()
    copy.take(*group_epoch(GROUP, 9, 1))
    for record in copy.tombstones():
        copy.take(*record)
    assert (group.epoch, list(group.members), len(group.owners), list(group.plans)) == (2, ["a"], 4, ["a"])


def test_what_older_brokers_wrote_is_read() -> None:
    """Assignments without epochs, states of later brokers, and a topic list that the hash has replaced."""
    assert owned_of([TopicPartitions(topic_id=b"t" * 16, partitions=[1, 2])], 5) == {b"t" * 16: {1: 5, 2: 5}}
    assert owned_of([TopicPartitions(topic_id=b"t" * 16, partitions=[1])], -2) == {b"t" * 16: {1: 0}}
    group = ConsumerGroup(GROUP)
    group.take(ConsumerGroupPartitionMetadataKey(GROUP), ConsumerGroupPartitionMetadataValue(topics=[]))
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=5,
        previous_member_epoch=4,
        state=99,
        assigned_partitions=[TopicPartitions(topic_id=topic_id_of("orders"), partitions=[1], assignment_epochs=[3])],
        partitions_pending_revocation=[],
    )
    group.take(ConsumerGroupCurrentMemberAssignmentKey(GROUP, "a"), value)
    assert group.members["a"].assigned == {topic_id_of("orders"): {1: 3}}
    assert group.owners == {(topic_id_of("orders"), 1): "a"}
    group.take(ConsumerGroupCurrentMemberAssignmentKey(GROUP, "nobody"), None)
