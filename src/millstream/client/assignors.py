"""How the leader of a classic group shares partitions out, by Kafka's names; pure."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from millstream.model.ids import TopicPartition

#: Member id -> the topics it subscribes to.
Subscriptions = Mapping[str, Iterable[str]]
Assignments = dict[str, list[TopicPartition]]


def assign_ranges(subscriptions: Subscriptions, counts: Mapping[str, int]) -> Assignments:
    """Each topic in stretches of consecutive partitions, the first members taking one more where it does not divide."""
    assigned: Assignments = {member: [] for member in sorted(subscriptions)}
    for topic, count in sorted(counts.items()):
        members = [member for member in assigned if topic in subscriptions[member]]
        at = 0
        for number, member in enumerate(members):
            share = count // len(members) + (number < count % len(members))
            assigned[member] += [TopicPartition(topic, partition) for partition in range(at, at + share)]
            at += share
    return assigned


def assign_in_turn(subscriptions: Subscriptions, counts: Mapping[str, int]) -> Assignments:
    """One partition after the other to the next member that subscribes to its topic."""
    assigned: Assignments = {member: [] for member in sorted(subscriptions)}
    turn = list(assigned)
    for topic, count in sorted(counts.items()):
        if not any(topic in subscriptions[member] for member in turn):
            continue
        for partition in range(count):
            while topic not in subscriptions[turn[0]]:
                turn.append(turn.pop(0))
            assigned[turn[0]].append(TopicPartition(topic, partition))
            turn.append(turn.pop(0))
    return assigned


#: What we offer, the one we like best first; a group takes one that all its members have.
ASSIGNORS: Final[Mapping[str, Callable[[Subscriptions, Mapping[str, int]], Assignments]]] = {
    "range": assign_ranges,
    "roundrobin": assign_in_turn,
}
