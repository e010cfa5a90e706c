"""Committing, reading and deleting offsets."""

import pytest

from millstream.coordination.groups.classic.group import ClassicGroup
from millstream.coordination.groups.machine import GroupMachine
from millstream.coordination.groups.offsets.expiry import DELETED_AT_ONCE
from millstream.coordination.groups.settings import GroupSettings
from millstream.coordination.schemas.consumer_offsets import OffsetCommitValue
from millstream.model.errors import ErrorCode
from millstream.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.unit.coordination.groups.offsets import (
    BY_NAME,
    codes,
    commit,
    committed,
    delete,
    fetch,
    group_stage,
    old_fetch,
    txn_commit,
)
from tests.unit.coordination.stage import Stage, Topics, topic_id_of

OK = ErrorCode.NONE


def machine_of(stage: Stage) -> GroupMachine:
    assert isinstance(stage.machine, GroupMachine)
    return stage.machine


# Committing.


@pytest.mark.parametrize("version", range(2, 11))
def test_what_is_committed_is_read_back_at_every_version(version: int) -> None:
    stage = group_stage()
    answer = stage.ask(commit("g", {("orders", 1): 42}, "as I left it"), version)
    assert codes(answer) == [OK]
    (group,) = stage.ask(fetch("g", ("orders", 1))).groups
    (row,) = group.topics[0].partitions
    assert (row.partition_index, row.committed_offset, row.metadata, row.error_code) == (1, 42, "as I left it", 0)


def test_a_leader_epoch_is_kept() -> None:
    stage = group_stage()
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_leader_epoch=3)
    topic = OffsetCommitRequestTopic(name="orders", partitions=[row])
    stage.ask(OffsetCommitRequest(group_id="g", topics=[topic]), BY_NAME)
    (group,) = stage.ask(fetch("g", ("orders", 0)), BY_NAME).groups
    assert group.topics[0].partitions[0].committed_leader_epoch == 3


def test_null_metadata_is_read_back_as_none_at_all() -> None:
    stage = group_stage()
    stage.ask(commit("g", {("orders", 0): 1}, None), BY_NAME)
    (group,) = stage.ask(fetch("g"), BY_NAME).groups
    assert group.topics[0].partitions[0].metadata == ""


def test_metadata_may_be_as_long_as_the_setting_says_and_no_longer() -> None:
    stage = group_stage(settings=GroupSettings(offset_metadata_max_bytes=3))
    assert codes(stage.ask(commit("g", {("orders", 0): 1}, "abc"), BY_NAME)) == [OK]
    request = commit("g", {("orders", 0): 2}, "abcd")
    request.topics += commit("g", {("orders", 1): 3}).topics
    assert codes(stage.ask(request, BY_NAME)) == [ErrorCode.OFFSET_METADATA_TOO_LARGE, OK]
    assert committed(stage, "g") == {"orders-0": 1, "orders-1": 3}


def test_a_partition_that_is_not_there_is_refused_alone() -> None:
    stage = group_stage()
    request = commit("g", {("orders", 0): 1, ("orders", 4): 1, ("orders", -1): 1, ("nothing", 0): 1})
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(stage.ask(request, BY_NAME)) == [OK, unknown, unknown, unknown]
    assert committed(stage, "g") == {"orders-0": 1}


def test_a_topic_is_named_by_its_id_from_version_10() -> None:
    stage = group_stage()
    request = commit("g", {("orders", 0): 1, ("nothing", 0): 1})
    for topic in request.topics:
        topic.name = ""
    answer = stage.ask(request, 10)
    assert codes(answer) == [OK, ErrorCode.UNKNOWN_TOPIC_ID]
    assert [topic.topic_id for topic in answer.topics] == [topic_id_of("orders"), topic_id_of("nothing")]
    (group,) = stage.ask(fetch("g", ("orders", 0), ("nothing", 0)), 10).groups
    assert [(topic.topic_id, topic.partitions[0].committed_offset) for topic in group.topics] == [
        (topic_id_of("orders"), 1),
        (topic_id_of("nothing"), -1),
    ]
    assert codes(group) == [OK, ErrorCode.UNKNOWN_TOPIC_ID]


def test_an_offset_of_a_namesake_is_not_shown_to_who_asks_by_id() -> None:
    topics = Topics(orders=4)
    stage = group_stage(topics)
    stage.ask(commit("g", {("orders", 0): 1}), 10)
    topics.make("orders", 4, topic_id=b"another of that!")
    request = fetch("g", ("orders", 0))
    assert request.groups[0].topics is not None
    request.groups[0].topics[0].topic_id = b"another of that!"
    (group,) = stage.ask(request, 10).groups
    assert group.topics[0].partitions[0].committed_offset == -1
    assert committed(stage, "g") == {"orders-0": 1}


def test_a_first_commit_without_a_generation_makes_a_group() -> None:
    stage = group_stage()
    stage.ask(commit("g", {("orders", 0): 1}), BY_NAME)
    group = machine_of(stage).groups["g"]
    assert isinstance(group, ClassicGroup)
    assert (group.state_name, group.protocol_type) == ("Empty", "")


@pytest.mark.parametrize(("version", "code"), [(8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)])
def test_a_commit_under_a_generation_needs_the_group(version: int, code: ErrorCode) -> None:
    stage = group_stage()
    request = commit("g", {("orders", 0): 1, ("nothing", 0): 1}, generation_id_or_member_epoch=3, member_id="m")
    assert codes(stage.ask(request, version)) == [code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert machine_of(stage).groups == {}


def test_the_group_is_asked_whether_the_member_may_commit() -> None:
    stage = group_stage()
    stage.ask(commit("g", {("orders", 0): 1}), BY_NAME)
    request = commit("g", {("orders", 0): 2}, generation_id_or_member_epoch=0, member_id="stranger")
    assert codes(stage.ask(request, BY_NAME)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert committed(stage, "g") == {"orders-0": 1}


def test_old_clients_say_how_long_an_offset_is_kept() -> None:
    stage = group_stage()
    stage.ask(commit("g", {("orders", 0): 1}, retention_time_ms=500), 4)
    value = stage.records[0].value
    assert isinstance(value, OffsetCommitValue)
    assert (value.commit_timestamp, value.expire_timestamp) == (stage.now_ms, stage.now_ms + 500)


# Reading.


def test_what_was_never_committed_is_minus_one() -> None:
    stage = group_stage()
    stage.ask(commit("g", {("orders", 0): 1}), BY_NAME)
    assert committed(stage, "g", ("orders", 0), ("orders", 1), ("nothing", 0)) == {
        "orders-0": 1,
        "orders-1": -1,
        "nothing-0": -1,
    }
    assert committed(stage, "no such group", ("orders", 0)) == {"orders-0": -1}
    assert committed(stage, "no such group") == {}


@pytest.mark.parametrize("version", range(1, 8))
def test_before_version_8_one_group_is_asked_for(version: int) -> None:
    stage = group_stage()
    stage.ask(commit("g", {("orders", 0): 1, ("audit", 0): 2}, "text"), BY_NAME)
    answer = stage.ask(old_fetch("g", ("audit", 0), ("orders", 3)), version)
    assert [
        (topic.name, row.partition_index, row.committed_offset, row.metadata)
        for topic in answer.topics
        for row in topic.partitions
    ] == [("audit", 0, 2, "text"), ("orders", 3, -1, "")]
    assert len(stage.ask(old_fetch("g"), version).topics) == 2


def test_all_topics_by_id_are_those_that_are_still_there() -> None:
    topics = Topics(orders=1, audit=1)
    stage = group_stage(topics)
    stage.ask(commit("g", {("orders", 0): 1, ("audit", 0): 2}), BY_NAME)
    topics.delete("audit")
    (group,) = stage.ask(fetch("g"), 10).groups
    assert [topic.topic_id for topic in group.topics] == [topic_id_of("orders")]


def test_several_groups_are_asked_for_at_once() -> None:
    stage = group_stage()
    stage.ask(commit("g", {("orders", 0): 1}), BY_NAME)
    stage.ask(commit("h", {("orders", 0): 2}), BY_NAME)
    request = fetch("g")
    request.groups += fetch("h").groups
    answer = stage.ask(request, 8)
    assert [(group.group_id, group.topics[0].partitions[0].committed_offset) for group in answer.groups] == [
        ("g", 1),
        ("h", 2),
    ]


# Deleting.


def test_offsets_are_deleted_one_by_one() -> None:
    stage = group_stage()
    stage.ask(commit("g", {("orders", 0): 1, ("orders", 1): 2}), BY_NAME)
    assert codes(stage.ask(delete("g", ("orders", 0), ("orders", 3), ("nothing", 0)))) == [
        OK,
        OK,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert [(record.key.partition, record.value) for record in stage.records] == [(0, None)]
    assert committed(stage, "g") == {"orders-1": 2}


def test_offsets_of_no_group_cannot_be_deleted() -> None:
    assert group_stage().refusal(delete("g", ("orders", 0))) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_deleted_topic_takes_its_offsets_along() -> None:
    topics = Topics(orders=4, audit=1)
    stage = group_stage(topics)
    for group in ("g", "h"):
        stage.ask(commit(group, {("orders", 0): 1, ("audit", 0): 2}), BY_NAME)
    stage.ask(txn_commit("g", {("orders", 3): 9}))
    topics.delete("orders")
    stage.topics_changed("orders", "audit")
    assert committed(stage, "g") == {"audit-0": 2}
    assert committed(stage, "h") == {"audit-0": 2}
    stage.end_transaction(7, is_commit=True)
    assert committed(stage, "g") == {"audit-0": 2}


def test_very_many_offsets_of_a_deleted_topic_go_a_share_at_a_time() -> None:
    topics = Topics(orders=600)
    stage = group_stage(topics)
    for group in ("g", "h", "i"):
        stage.ask(commit(group, {("orders", partition): 1 for partition in range(600)}), BY_NAME)
    topics.delete("orders")
    stage.topics_changed("orders")
    assert len(stage.records) == DELETED_AT_ONCE < 600
    stage.advance(10)
    assert [committed(stage, group) for group in ("g", "h", "i")] == [{}, {}, {}]


def test_offsets_of_a_namesake_go_where_the_id_tells() -> None:
    topics = Topics(orders=4)
    stage = group_stage(topics)
    stage.ask(commit("g", {("orders", 0): 1}), 10)
    stage.ask(commit("g", {("orders", 1): 1}), BY_NAME)
    topics.make("orders", 4, topic_id=b"another of that!")
    stage.topics_changed("orders")
    assert committed(stage, "g") == {"orders-1": 1}


# Loading.


def test_a_restart_keeps_everything() -> None:
    stage = group_stage()
    stage.ask(commit("g", {("orders", 0): 1, ("orders", 1): 2}, "text"), 10)
    stage.ask(txn_commit("g", {("orders", 2): 3}))
    stage.ask(delete("g", ("orders", 1)))
    before = machine_of(stage).offsets.store.of_group("g")
    stage.restart()
    assert machine_of(stage).offsets.store.of_group("g") == before
    assert committed(stage, "g", ("orders", 2), is_stable=True) == {"orders-2": "UNSTABLE_OFFSET_COMMIT"}
    stage.end_transaction(7, is_commit=True)
    assert committed(stage, "g") == {"orders-0": 1, "orders-2": 3}
