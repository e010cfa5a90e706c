"""A consumer group as ConsumerGroupDescribe shows it."""

from collections.abc import Iterable, Mapping, Sequence

from millstream.coordination.groups.consumer.group import ConsumerGroup
from millstream.coordination.groups.consumer.member import ConsumerMember
from millstream.coordination.groups.group import ClusterTopics
from millstream.model.ids import Uuid
from millstream.protocol.messages.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def described(group: ConsumerGroup, assignors: Sequence[str], topics: ClusterTopics) -> DescribedGroup:
    """All of it, without an error."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor(assignors),
        members=[_member(group, member, topics) for member in group.members.values()],
    )


def _member(group: ConsumerGroup, member: ConsumerMember, topics: ClusterTopics) -> Member:
    # What it has yet to give back is its own until it has.
    owned = {topic_id: set(partitions) for topic_id, partitions in member.assigned.items()}
    for topic_id, partitions in member.revoking.items():
        owned.setdefault(topic_id, set()).update(partitions)
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(owned, topics),
        target_assignment=_assignment(group.plans.get(member.member_id, {}), topics),
        member_type=CLASSIC_MEMBER if member.is_classic else CONSUMER_MEMBER,
    )


def _assignment(partitions: Mapping[Uuid, Iterable[int]], topics: ClusterTopics) -> Assignment:
    """By topic; topics that are gone are left out."""
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=view.name, partitions=sorted(each))
            for topic_id, each in partitions.items()
            if (view := topics.by_id(topic_id)) is not None
        ]
    )
