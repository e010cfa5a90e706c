"""The records of a consumer group, made from what they say."""

from collections.abc import Iterable

from millstream.coordination.groups.consumer.member import ConsumerMember, Owned, Plan
from millstream.coordination.schemas.consumer_offsets import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartition,
    TopicPartitions,
)
from millstream.coordination.schemas.record import CoordinatorRecord


def member_metadata(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """What a member said of itself."""
    value = ConsumerGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.assignor,
        classic_member_metadata=member.classic,
    )
    return CoordinatorRecord(ConsumerGroupMemberMetadataKey(group_id, member.member_id), value)


def current_assignment(group_id: str, member: ConsumerMember) -> CoordinatorRecord:
    """How far a member has come."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=int(member.state),
        assigned_partitions=_listed(member.assigned),
        partitions_pending_revocation=_listed(member.revoking),
    )
    return CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id, member.member_id), value)


def target_assignment(group_id: str, member_id: str, plan: Plan) -> CoordinatorRecord:
    """A member's share of the plan."""
    value = ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TopicPartition(topic_id=topic_id, partitions=sorted(partitions)) for topic_id, partitions in plan.items()
        ]
    )
    return CoordinatorRecord(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), value)


def assignment_epoch(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    """The plan is that of this group epoch."""
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch, assignment_timestamp=timestamp_ms)
    return CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id), value)


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> CoordinatorRecord:
    """The group wants a new plan."""
    value = ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
    return CoordinatorRecord(ConsumerGroupMetadataKey(group_id), value)


def regular_expression(group_id: str, regex: str, topics: Iterable[str], timestamp_ms: int) -> CoordinatorRecord:
    """The topics that a pattern stands for now."""
    value = ConsumerGroupRegularExpressionValue(topics=sorted(topics), version=0, timestamp=timestamp_ms)
    return CoordinatorRecord(ConsumerGroupRegularExpressionKey(group_id, regex), value)


def regular_expression_tombstone(group_id: str, regex: str) -> CoordinatorRecord:
    """Nobody subscribes by this pattern any more."""
    return CoordinatorRecord(ConsumerGroupRegularExpressionKey(group_id, regex), None)


def member_tombstones(group_id: str, member_id: str) -> list[CoordinatorRecord]:
    """A member is gone: Kafka's order, in which nothing is ever without what it hangs on."""
    return [
        CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), None),
        CoordinatorRecord(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), None),
        CoordinatorRecord(ConsumerGroupMemberMetadataKey(group_id, member_id), None),
    ]


def group_tombstones(group_id: str, member_ids: Iterable[str], regexes: Iterable[str]) -> list[CoordinatorRecord]:
    """The group is gone, with all its members."""
    members = list(member_ids)
    return [
        *(CoordinatorRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id, each), None) for each in members),
        *(CoordinatorRecord(ConsumerGroupTargetAssignmentMemberKey(group_id, each), None) for each in members),
        CoordinatorRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id), None),
        *(CoordinatorRecord(ConsumerGroupMemberMetadataKey(group_id, each), None) for each in members),
        *(regular_expression_tombstone(group_id, regex) for regex in regexes),
        CoordinatorRecord(ConsumerGroupMetadataKey(group_id), None),
    ]


def owned_of(listed: Iterable[TopicPartitions], member_epoch: int) -> Owned:
    """What a record lists; where it gives no epochs, as before Kafka 4.3, all are the member's."""
    owned = {}
    for topic in listed:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [max(member_epoch, 0)] * len(topic.partitions)
        owned[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return owned


def _listed(owned: Owned) -> list[TopicPartitions]:
    return [
        TopicPartitions(topic_id=topic_id, partitions=list(partitions), assignment_epochs=list(partitions.values()))
        for topic_id, partitions in owned.items()
    ]
