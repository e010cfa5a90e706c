"""A member of a consumer group: what it said of itself, and how far it has come towards the plan."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from millstream.coordination.schemas.consumer_offsets import ClassicMemberMetadata
from millstream.model.ids import Uuid

#: Partitions a member has, by topic, each with the epoch at which it was given.
Owned = Mapping[Uuid, Mapping[int, int]]
#: Partitions a member should have, by topic.
Plan = Mapping[Uuid, frozenset[int]]

JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
#: A static member is away for a while, and keeps what it has.
AWAY_EPOCH: Final = -2


class MemberState(IntEnum):
    """Kafka's numbers, as its records keep them."""

    STABLE = 0
    #: It has partitions to give back first.
    UNREVOKED_PARTITIONS = 1
    #: It has given back what it must; some of its share is still with others.
    UNRELEASED_PARTITIONS = 2

    @classmethod
    def _missing_(cls, value: object) -> "MemberState":
        """A state of a later Kafka: the member is asked what it has, and led from there."""
        return cls.UNREVOKED_PARTITIONS


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    """One member; a change makes another."""

    member_id: str
    epoch: int = JOINING_EPOCH
    #: What it may still come with, when the answer that told it of its epoch was lost.
    previous_epoch: int = -1
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    #: Empty for none.
    regex: str | None = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    #: Only for a member that speaks the classic protocol.
    classic: ClassicMemberMetadata | None = None
    state: MemberState = MemberState.STABLE
    assigned: Owned = field(default_factory=dict)
    #: What it must give back, and has until it says that it has not.
    revoking: Owned = field(default_factory=dict)

    @property
    def is_classic(self) -> bool:
        return self.classic is not None

    def assigned_since(self, topic_id: Uuid, partition: int) -> int | None:
        """The epoch at which it was given a partition that it has; None if it has it not."""
        for owned in (self.assigned, self.revoking):
            if (since := owned.get(topic_id, {}).get(partition)) is not None:
                return since
        return None

    def is_reconciled(self, assignment_epoch: int) -> bool:
        """Whether it has all that the plan of this epoch gives it, and no more."""
        return self.state is MemberState.STABLE and self.epoch == assignment_epoch
