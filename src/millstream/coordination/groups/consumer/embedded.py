"""A classic member's assignment within a consumer group: partitions by topic id, told by topic name."""

from collections.abc import Iterable, Mapping

from millstream.coordination.groups.consumer.member import Owned
from millstream.coordination.groups.group import ClusterTopics
from millstream.coordination.schemas.consumer_protocol import NamedAssignment, NamedPartitions
from millstream.model.ids import Uuid
from millstream.protocol.codec import encode


def encode_assignment(owned: Mapping[Uuid, Iterable[int]] | Owned, version: int, topics: ClusterTopics) -> bytes:
    """For a member that speaks ``version``; topics that are gone are left out."""
    message = NamedAssignment(
        assigned_partitions=[
            NamedPartitions(topic=view.name, partitions=sorted(partitions))
            for topic_id, partitions in owned.items()
            if (view := topics.by_id(topic_id)) is not None
        ]
    )
    return version.to_bytes(2, "big") + encode(message, version)


def by_topic_id(listed: Iterable[NamedPartitions], topics: ClusterTopics) -> dict[Uuid, list[int]]:
    """The same by topic id; topics that are gone are left out."""
    return {view.topic_id: each.partitions for each in listed if (view := topics.by_name(each.topic)) is not None}
