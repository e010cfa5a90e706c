"""What classic consumers tell each other through their broker: subscriptions and assignments, by topic name."""

from collections.abc import Iterable, Mapping
from typing import Final

from millstream.coordination.groups.consumer.member import Owned
from millstream.coordination.groups.group import ClusterTopics
from millstream.model.errors import CorruptFrame
from millstream.model.ids import Uuid
from millstream.protocol.codec import decode, encode
from millstream.protocol.schema import Value, field, struct, value
from millstream.protocol.types import Array, Bytes, Int32, String

PROTOCOL_TYPE: Final = "consumer"
#: A later version begins as this one does.
VERSION_MAX: Final = 3


@struct
class NamedPartitions:
    """Partitions of a topic."""

    topic: str = field(String)
    partitions: list[int] = field(Array(Int32))


@value(versions="0-3", flexible=None, written=VERSION_MAX)
class Subscription(Value):
    """What a member wants, and what it has."""

    topics: list[str] = field(Array(String))
    user_data: bytes | None = field(Bytes, nullable="0+")
    owned_partitions: list[NamedPartitions] = field(Array(NamedPartitions), "1+")
    generation_id: int = field(Int32, "2+", default=-1)
    rack_id: str | None = field(String, "3+", nullable="3+")


@value(versions="0-3", flexible=None, written=VERSION_MAX)
class NamedAssignment(Value):
    """What a member is given."""

    assigned_partitions: list[NamedPartitions] = field(Array(NamedPartitions))
    user_data: bytes | None = field(Bytes, nullable="0+")


def version_of(metadata: bytes) -> int:
    """The version in front, as far as we know it; CorruptFrame where there is none."""
    if len(metadata) < 2:
        raise CorruptFrame("a consumer's metadata begins with its version")
    version = int.from_bytes(metadata[:2], "big", signed=True)
    if version < 0:
        raise CorruptFrame(f"version {version} of a consumer's metadata")
    return min(version, VERSION_MAX)


def decode_subscription(metadata: bytes) -> Subscription:
    """CorruptFrame where the bytes are none."""
    return decode(Subscription, metadata, version_of(metadata), 2)


def decode_assignment(assignment: bytes) -> NamedAssignment:
    """CorruptFrame where the bytes are none."""
    return decode(NamedAssignment, assignment, version_of(assignment), 2)


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
