"""Requests about offsets, in few words, and a machine to send them to."""

from typing import Any

from millstream.coordination.groups.machine import GroupMachine
from millstream.coordination.groups.settings import GroupSettings
from millstream.model.errors import ErrorCode
from millstream.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from millstream.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from millstream.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from millstream.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.unit.coordination.stage import Stage, Topics, counted_ids, topic_id_of

#: Topic and partition, and what is committed for it.
Offsets = dict[tuple[str, int], int]
BY_NAME = 9


def group_stage(topics: Topics | None = None, settings: GroupSettings | None = None) -> Stage:
    """A stage with a group machine on it, in a cluster of ``orders`` (4 partitions) and ``audit`` (1)."""
    cluster = topics or Topics(orders=4, audit=1)
    reports: list[str] = []
    in_force = settings or GroupSettings()
    return Stage(lambda: GroupMachine(lambda: in_force, cluster, counted_ids(), reports.append))


def commit(group: str, offsets: Offsets, metadata: str | None = "", **given: Any) -> OffsetCommitRequest:
    """An OffsetCommit, by default of somebody who is no member."""
    topics = []
    for (topic, partition), offset in offsets.items():
        row = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=metadata
        )
        topics.append(OffsetCommitRequestTopic(name=topic, topic_id=topic_id_of(topic), partitions=[row]))
    return OffsetCommitRequest(group_id=group, topics=topics, **given)


def txn_commit(group: str, offsets: Offsets, producer_id: int = 7, **given: Any) -> TxnOffsetCommitRequest:
    """A TxnOffsetCommit of that producer."""
    topics = []
    for (topic, partition), offset in offsets.items():
        row = TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
        topics.append(TxnOffsetCommitRequestTopic(name=topic, partitions=[row]))
    return TxnOffsetCommitRequest(
        transactional_id="t", group_id=group, producer_id=producer_id, producer_epoch=0, topics=topics, **given
    )


def delete(group: str, *places: tuple[str, int]) -> OffsetDeleteRequest:
    """An OffsetDelete."""
    topics = [
        OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=partition)])
        for topic, partition in places
    ]
    return OffsetDeleteRequest(group_id=group, topics=topics)


def fetch(group: str, *places: tuple[str, int], is_stable: bool = False, **member: Any) -> OffsetFetchRequest:
    """An OffsetFetch from version 8 on; of everything where no place is named."""
    topics = [
        OffsetFetchRequestTopics(name=topic, topic_id=topic_id_of(topic), partition_indexes=[partition])
        for topic, partition in places
    ]
    asked = OffsetFetchRequestGroup(group_id=group, topics=topics if places else None, **member)
    return OffsetFetchRequest(groups=[asked], require_stable=is_stable)


def old_fetch(group: str, *places: tuple[str, int], is_stable: bool = False) -> OffsetFetchRequest:
    """An OffsetFetch before version 8."""
    topics = [OffsetFetchRequestTopic(name=topic, partition_indexes=[partition]) for topic, partition in places]
    return OffsetFetchRequest(group_id=group, topics=topics if places else None, require_stable=is_stable)


def codes(response: Any) -> list[ErrorCode]:
    """The code of each row, in order."""
    return [ErrorCode(row.error_code) for topic in response.topics for row in topic.partitions]


def committed(stage: Stage, group: str, *places: tuple[str, int], is_stable: bool = False) -> dict[str, Any]:
    """What a fetch shows, by ``topic-partition``: the offset, or the name of the error."""
    (answer,) = stage.ask(fetch(group, *places, is_stable=is_stable), BY_NAME).groups
    assert answer.error_code == 0
    return {
        f"{topic.name}-{row.partition_index}": ErrorCode(row.error_code).name
        if row.error_code
        else row.committed_offset
        for topic in answer.topics
        for row in topic.partitions
    }
