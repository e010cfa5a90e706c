"""The ``uniform`` assignor: every member has as many partitions as the others, and keeps what it had where it may."""

from millstream.coordination.groups.consumer.assignors import mixed
from millstream.coordination.groups.consumer.assignors.share import PartitionCounts, Shares, Subscribers
from millstream.model.ids import Uuid


def assign(members: Subscribers, counts: PartitionCounts) -> Shares:
    """Even shares where all read the same topics, else as even as what they read allows."""
    if len({member.topic_ids for member in members.values()}) > 1:
        return mixed.assign(members, counts)
    return _assign_evenly(members, counts)


def _assign_evenly(members: Subscribers, counts: PartitionCounts) -> Shares:
    """Shares that differ by one partition at most, in one pass over members and partitions."""
    if not members:
        return {}
    least, extras = divmod(sum(counts.values()), len(members))
    kept: dict[str, list[tuple[Uuid, int]]] = {}
    quotas: dict[str, int] = {}
    free = {topic_id: set(range(count)) for topic_id, count in counts.items()}
    for member_id, member in members.items():
        had = [
            (topic_id, partition)
            for topic_id, partitions in member.plan.items()
            if topic_id in free
            for partition in sorted(partitions)
            if partition in free[topic_id]
        ]
        # Whoever has one more already is the first to keep it.
        quotas[member_id] = quota = least + (len(had) > least and extras > 0)
        extras -= quota - least
        kept[member_id] = had[:quota]
        for topic_id, partition in kept[member_id]:
            free[topic_id].remove(partition)
    unassigned = ((topic_id, partition) for topic_id, partitions in free.items() for partition in sorted(partitions))
    for member_id, share in kept.items():
        if extras and quotas[member_id] == least:
            quotas[member_id] += 1
            extras -= 1
        share.extend(next(unassigned) for _ in range(quotas[member_id] - len(share)))
    return {member_id: by_topic(share) for member_id, share in kept.items()}


def by_topic(share: list[tuple[Uuid, int]]) -> dict[Uuid, frozenset[int]]:
    """A share as plans hold it."""
    topics: dict[Uuid, list[int]] = {}
    for topic_id, partition in share:
        topics.setdefault(topic_id, []).append(partition)
    return {topic_id: frozenset(partitions) for topic_id, partitions in topics.items()}
