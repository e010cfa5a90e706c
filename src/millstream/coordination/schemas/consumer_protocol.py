"""What classic consumers tell each other through their broker: subscriptions and assignments, by topic name."""

from typing import Final

from millstream.model.errors import CorruptFrame
from millstream.protocol.codec import decode
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


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics of a subscription, or None when it cannot be read.

    Every version begins with what version 0 has, so that later ones are read alike.
    """
    try:
        version_of(metadata)
        return frozenset(decode(Subscription, metadata, 0, 2).topics)
    except CorruptFrame:
        return None
