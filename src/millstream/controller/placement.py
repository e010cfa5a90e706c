"""Which brokers hold a new partition's replicas, by Kafka's rule.

Leaders go round the brokers from a random start.  The followers of a partition go round after its leader, and each
full round of leaders shifts them by one more, so that the load of a lost broker spreads over all the others.  Where
every broker names its rack, brokers are taken alternately from the racks, and a partition takes no rack twice while
another has none of it.
"""

from collections.abc import Iterator, Mapping, Sequence


def place(
    racks: Mapping[int, str | None], partitions: range, replication_factor: int, start: int, shift: int
) -> dict[int, tuple[int, ...]]:
    """The replicas of each partition, its preferred leader first.

    ``racks`` has every live broker; ``start`` and ``shift`` are the first leader's and first follower's place.
    """
    assert 1 <= replication_factor <= len(racks), "checked by whoever asks"
    known = {broker: rack for broker, rack in racks.items() if rack is not None}
    if len(known) < len(racks):  # Racks known in part would pile replicas up on the few that are.
        return dict(_without_racks(sorted(racks), partitions, replication_factor, start, shift))
    return dict(_with_racks(known, partitions, replication_factor, start, shift))


def _without_racks(
    brokers: Sequence[int], partitions: range, replication_factor: int, start: int, shift: int
) -> Iterator[tuple[int, tuple[int, ...]]]:
    count = len(brokers)
    for partition in partitions:
        if partition > 0 and partition % count == 0:
            shift += 1
        first = (partition + start) % count
        followers = (brokers[_follower(first, shift, nth, count)] for nth in range(replication_factor - 1))
        yield partition, (brokers[first], *followers)


def _with_racks(
    racks: Mapping[int, str], partitions: range, replication_factor: int, start: int, shift: int
) -> Iterator[tuple[int, tuple[int, ...]]]:
    brokers = alternate(racks)
    count, rack_count = len(brokers), len(set(racks.values()))
    for partition in partitions:
        if partition > 0 and partition % count == 0:
            shift += 1
        first = (partition + start) % count
        replicas = [brokers[first]]
        nth = 0
        while len(replicas) < replication_factor:
            broker = brokers[_follower(first, shift * rack_count, nth, count)]
            taken = {racks[replica] for replica in replicas}
            if broker not in replicas and (racks[broker] not in taken or len(taken) == rack_count):
                replicas.append(broker)
            nth += 1
        yield partition, tuple(replicas)


def alternate(racks: Mapping[int, str]) -> list[int]:
    """The brokers, one from each rack in turn."""
    queues: dict[str, list[int]] = {}
    for broker in sorted(racks):
        queues.setdefault(racks[broker], []).append(broker)
    longest = max(map(len, queues.values()))
    return [queues[rack][nth] for nth in range(longest) for rack in sorted(queues) if nth < len(queues[rack])]


def _follower(first: int, shift: int, nth: int, count: int) -> int:
    """The place of the nth follower: never the leader's."""
    return (first + 1 + (shift + nth) % (count - 1)) % count
