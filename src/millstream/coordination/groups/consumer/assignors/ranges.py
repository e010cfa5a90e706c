"""The ``range`` assignor: each topic is cut into stretches, and every topic into the same ones for the same members.

Topics with equally many partitions are thereby assigned alike, so that one member can join them.
"""

from collections import Counter

from millstream.coordination.groups.consumer.assignors.share import PartitionCounts, Shares, Subscribers
from millstream.model.ids import Uuid


def assign(members: Subscribers, counts: PartitionCounts) -> Shares:
    """Stretches in the order of instances, then of member ids; the first members have one more where it is uneven."""
    readers = Counter(topic_id for member in members.values() for topic_id in member.topic_ids)
    taken: Counter[Uuid] = Counter()
    begins: Counter[Uuid] = Counter()
    shares: Shares = {}
    for member_id in sorted(members, key=lambda each: _rank(members[each].instance_id, each)):
        share = shares[member_id] = {}
        for topic_id in sorted(members[member_id].topic_ids):
            least, rest = divmod(counts[topic_id], readers[topic_id])
            begin = begins[topic_id]
            end = begin + least + (taken[topic_id] < rest)
            taken[topic_id] += 1
            begins[topic_id] = end
            if begin < end:
                share[topic_id] = frozenset(range(begin, end))
    return shares


def _rank(instance_id: str | None, member_id: str) -> tuple[bool, str]:
    """Static members first: their order outlives a restart."""
    return (instance_id is None, member_id if instance_id is None else instance_id)
