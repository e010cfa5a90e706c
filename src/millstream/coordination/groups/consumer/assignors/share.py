"""What an assignor is given and what it gives."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from millstream.coordination.groups.consumer.member import Plan
from millstream.model.ids import Uuid


class Subscriber(NamedTuple):
    """A member as an assignor sees it: the topics it reads, all of which exist, and what it had in the last plan."""

    instance_id: str | None
    topic_ids: frozenset[Uuid]
    plan: Plan


#: Subscribers by member id, in the order they joined.
Subscribers = Mapping[str, Subscriber]
#: How many partitions each topic has that anybody reads.
PartitionCounts = Mapping[Uuid, int]
#: Each member's share; a member without one is not named.
Shares = dict[str, dict[Uuid, frozenset[int]]]
Assign = Callable[[Subscribers, PartitionCounts], Shares]
