"""What a group is to the rest of the coordinator, whichever protocol its members speak."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from millstream.coordination.decision import Timer
from millstream.coordination.schemas.record import CoordinatorRecord
from millstream.model.ids import Uuid


class GroupType(StrEnum):
    """Kafka's names for the protocols."""

    CLASSIC = "Classic"
    CONSUMER = "Consumer"


class TopicView(NamedTuple):
    """A topic as an assignor sees it."""

    topic_id: Uuid
    name: str
    partition_count: int


class ClusterTopics(Protocol):
    """The cluster's topics as this broker knows them; given to the machine, which only asks."""

    def by_name(self, name: str) -> TopicView | None: ...

    def by_id(self, topic_id: Uuid) -> TopicView | None: ...

    def names(self) -> Iterator[str]: ...

    def racks(self, topic: TopicView, partition: int) -> frozenset[str]:
        """Where the partition's replicas stand; empty when brokers have no rack."""
        ...


class TopicsChanged(NamedTuple):
    """An event: topics were made, widened or deleted (by name)."""

    topics: frozenset[str]


class Group(Protocol):
    """Questions that offsets and administration ask of any group.  A check refuses with a ``ProtocolError``."""

    group_id: str

    @property
    def type(self) -> GroupType: ...

    @property
    def state_name(self) -> str:
        """As DescribeGroups and ListGroups show it: Empty, Stable, PreparingRebalance, Assigning…"""
        ...

    @property
    def protocol_type(self) -> str:
        """``consumer`` for consumers, empty for a group that only keeps offsets."""
        ...

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int,
        partitions: Iterable[tuple[Uuid, int]],
        *,
        is_transactional: bool,
        version: int,
    ) -> Sequence[Timer]:
        """Whether this member may commit under this generation or member epoch; timers its sign of life moves.

        Which ``partitions``, by topic id, is looked at only where it matters.
        """
        ...

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Whether this member may read offsets; (None or empty, -1) is anybody."""
        ...

    def check_delete(self) -> None:
        """NON_EMPTY_GROUP while it has members."""
        ...

    def is_subscribed(self, topic: str) -> bool:
        """Whether a live member reads the topic, so that its offsets must stay."""
        ...

    def offsets_expire_from(self, commit_timestamp_ms: int) -> int | None:
        """Since when an offset committed then is unused, as Kafka reckons it; None while the group needs it."""
        ...

    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that delete the group (its offsets are deleted by others)."""
        ...


#: Every group of a shard by its id; changed by replay, and by the classic protocol's soft state.
Groups = dict[str, Group]
GroupsView = Mapping[str, Group]
